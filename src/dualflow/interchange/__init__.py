"""Floor 6: models in the files of others, LIBSVM's."""

from .libsvm import LibsvmModel, from_libsvm, to_libsvm

__all__ = ["LibsvmModel", "from_libsvm", "to_libsvm"]
