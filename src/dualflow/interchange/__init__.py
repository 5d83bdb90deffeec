"""Floor 6: models and data in the files of others: LIBSVM's and ONNX."""

from .libsvm import from_libsvm, to_libsvm
from .libsvm_model import LibsvmModel
from .onnx_export import register_onnx, to_onnx
from .svmlight import from_svmlight, to_svmlight

__all__ = [
    "LibsvmModel",
    "from_libsvm",
    "from_svmlight",
    "register_onnx",
    "to_libsvm",
    "to_onnx",
    "to_svmlight",
]
