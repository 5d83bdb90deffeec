"""Read and write models and data in other formats: LIBSVM models, svmlight data, ONNX, and C headers."""

from .c_export import to_c
from .libsvm import from_libsvm, to_libsvm
from .libsvm_model import LibsvmModel
from .onnx_export import register_onnx, to_onnx
from .svmlight import from_svmlight, to_svmlight

__all__ = [
    "LibsvmModel",
    "from_libsvm",
    "from_svmlight",
    "register_onnx",
    "to_c",
    "to_libsvm",
    "to_onnx",
    "to_svmlight",
]
