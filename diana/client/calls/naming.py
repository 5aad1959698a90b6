"""Pickles in which the user's `__main__` travels: cloudpickle sends its functions and classes whole, but what pickle
knows by name alone (functions with a cache, `NewType`, values that name themselves) it would look for at the site.

The names that a pickle's functions and classes have in `__main__` travel along, so that `__main__` has them in the job,
too: plain pickle, which process pools and results are sent by, finds them there.
"""

from __future__ import annotations

import functools
import io
import sys
import types
import typing
from importlib import import_module
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

_PROTOCOL = 5
_CACHED = type(functools.lru_cache(len))


def pickled(value: object) -> bytes:
    """A pickle of the value and of the names in `__main__` of what it is made of, as a pair."""
    out = io.BytesIO()
    pickler = _Pickler(out)
    # Filled while the value is pickled, and pickled after it.
    pickler.dump((value, pickler.names))
    return out.getvalue()


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, _PROTOCOL)
        self.names: dict[str, Any] = {}

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is functools.cached_property:
            # Before Python 3.12 it has a lock, which no pickle holds.
            return functools.cached_property, (obj.func,), {"attrname": obj.attrname, "__doc__": obj.__doc__}
        if getattr(obj, "__module__", None) != "__main__":
            return super().reducer_override(obj)
        if isinstance(obj, (type, types.FunctionType)):
            self._note(obj.__qualname__, obj)
            return super().reducer_override(obj)
        if type(obj) in self.dispatch_table:
            return NotImplemented
        reduced = obj.__reduce_ex__(_PROTOCOL)
        if not isinstance(reduced, str):
            return reduced
        self._note(reduced, obj)
        return _made_anew(reduced, obj)

    def _note(self, name: str, obj: object) -> None:
        if getattr(sys.modules["__main__"], name, None) is obj:
            self.names[name] = obj


class _Made:
    """Stands in a pickle for what a call makes there."""

    def __init__(self, *reduced: Any) -> None:
        self._reduced = reduced

    def __reduce__(self) -> tuple[Any, ...]:
        return self._reduced


def _made_anew(name: str, obj: Any) -> tuple[Any, ...]:
    """How to make it from its parts. TypeError: it has none that are known."""
    if isinstance(obj, _CACHED):
        how = obj.cache_parameters()
        parts = (obj.__wrapped__, how["maxsize"], how["typed"], functools._CacheInfo)
        return _CACHED, parts, vars(obj)
    if isinstance(obj, typing.NewType):
        return typing.NewType, (obj.__name__, obj.__supertype__), vars(obj)
    if isinstance(obj, (typing.ParamSpec, typing.TypeVarTuple)):
        return type(obj), (obj.__name__,)
    if type(obj).__module__ == "__main__":
        # A value that is compared by identity: one of each name, however many pickles bring it.
        main = _Made(vars, (_Made(import_module, ("__main__",)),))
        return dict.setdefault, (main, name, _Made(object.__new__, (type(obj),), obj.__getstate__()))
    raise TypeError(
        f"{name} of __main__ is known by its name alone, and no site has it; define it in a module that sites have"
    )
