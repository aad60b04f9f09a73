"""A loop that numba compiles, or reads from disk, when it is first called, and only for the types of that call."""

from collections.abc import Callable
from typing import Any

from numba import njit, types
from numba.np.numpy_support import as_dtype

from lookalike.core.kernels import compiling

__all__ = ["Loop", "compiled"]


def compiled(signatures: Any, **options: Any) -> "Callable[[Callable[..., Any]], Loop]":
    """Make a function a loop that is compiled for these types alone: a signature or several, and options of njit."""
    several = signatures if isinstance(signatures, list) else [signatures]
    return lambda function: Loop(function, several, options)


class Loop:
    """A compiled function. Of several signatures, the first array whose type differs says which one a call needs."""

    def __init__(self, function: Callable[..., Any], signatures: list[Any], options: dict[str, Any]) -> None:
        self.__name__, self.__doc__, self.__module__ = function.__name__, function.__doc__, function.__module__
        self._function = function
        self._options = {"no_cfunc_wrapper": True} | options
        by_position = zip(*(signature.args for signature in signatures), strict=True)
        self._telling = next((i for i, found in enumerate(by_position) if len(set(found)) > 1), None)
        self.signatures = {self._key_of(signature): signature for signature in signatures}
        self._ready: dict[Any, Callable[..., Any]] = {}

    def __call__(self, *arguments: Any) -> Any:
        key = None if self._telling is None else arguments[self._telling].dtype
        loop = self._ready.get(key)
        return (self.prepare(key) if loop is None else loop)(*arguments)

    def prepare(self, key: Any = None) -> Callable[..., Any]:
        """The function compiled for one signature. key: the type of the array that tells which, if any."""
        signature = self.signatures.get(key)
        if signature is None:
            raise TypeError(f"{self.__name__} is compiled for {', '.join(map(str, self.signatures))}, not for {key}")
        with compiling(self.__module__, self.__name__, str(signature)):
            if key not in self._ready:  # another thread may have been faster
                self._ready[key] = njit(signature, **self._options)(self._function)
        return self._ready[key]

    def _key_of(self, signature: Any) -> Any:
        if self._telling is None:
            return None
        array = signature.args[self._telling]
        assert isinstance(array, types.Array)
        return as_dtype(array.dtype)
