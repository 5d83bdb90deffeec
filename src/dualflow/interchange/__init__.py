"""Floor 6: models in the files of others, LIBSVM's."""

from .libsvm import from_libsvm, to_libsvm
from .libsvm_model import LibsvmModel

__all__ = ["LibsvmModel", "from_libsvm", "to_libsvm"]
