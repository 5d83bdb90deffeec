"""The one compiled file. Everything else about the package is in pyproject.toml."""

import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CCompilerError, CompileError, ExecError, PlatformError

FLAGS = ["/O2", "/fp:precise"]
if sys.platform != "win32":
    # Finite math lets minimum and maximum vectorise. Never -ffast-math: a library linked with it turns denormals
    # into 0 in the whole process that loads it.
    FLAGS = ["-O3", "-ffinite-math-only", "-fno-signed-zeros", "-fno-math-errno", "-fno-trapping-math"]


class BuildPairs(build_ext):
    """Says what is missing where there is no C compiler."""

    def run(self) -> None:
        try:
            super().run()
        except (CCompilerError, CompileError, ExecError, PlatformError, FileNotFoundError) as error:
            raise SystemExit(
                "dualflow compiles one C file, its working-set solver, and that failed:\n"
                f"  {error}\n"
                "A C compiler and Python's headers are needed: on Debian or Ubuntu `apt-get install gcc python3-dev`, "
                "on Fedora `dnf install gcc python3-devel`, on macOS `xcode-select --install`, on Windows the Visual "
                "Studio Build Tools with C++."
            ) from error


setup(
    ext_modules=[
        Extension(
            "dualflow.working_set._pairs",
            ["src/dualflow/working_set/_pairs.pyx"],
            depends=["src/dualflow/working_set/pairs.h"],
            include_dirs=["src/dualflow/working_set"],
            extra_compile_args=FLAGS,
        )
    ],
    cmdclass={"build_ext": BuildPairs},
)
