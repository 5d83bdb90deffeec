"""Call a function once another package is imported, without importing that package."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import warnings
from importlib.machinery import ModuleSpec
from typing import Any


class _Finder:
    """A finder that leaves finding a package to all others, and calls a function after the package was executed."""

    def __init__(self, package: str, target: str) -> None:
        self.package, self.target, self.is_searching = package, target, False

    def find_spec(self, name: str, path: Any = None, module: Any = None) -> ModuleSpec | None:
        if name != self.package or self.is_searching:
            return None
        self.is_searching = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.is_searching = False
        loader: Any = None if spec is None else spec.loader
        if loader is not None and hasattr(loader, "exec_module"):
            execute = loader.exec_module

            def execute_and_call(module: Any) -> None:
                execute(module)
                if self in sys.meta_path:
                    sys.meta_path.remove(self)
                    _call(self.target, self.package)

            loader.exec_module = execute_and_call
        return spec


def call_after_import(package: str, target: str) -> None:
    """Call a function, given as "module:name", now if a package is imported already, else as soon as it is."""
    if package in sys.modules:
        _call(target, package)
    elif not any(isinstance(finder, _Finder) and finder.target == target for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder(package, target))


def _call(target: str, package: str) -> None:
    """Call a function; a failure is a warning, because it must not keep the package from being imported."""
    module, _, name = target.partition(":")
    try:
        getattr(importlib.import_module(module), name)()
    except Exception as error:
        warnings.warn(
            f"{target} could not be called after the import of {package}: {error}", RuntimeWarning, stacklevel=3
        )
