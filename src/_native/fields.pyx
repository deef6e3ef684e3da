# cython: language_level=3
"""Fields of objects whose class has slots, read without looking their names up."""
cimport cython
from cpython.object cimport Py_EQ, PyObject, PyObject_RichCompareBool
from cpython.sequence cimport PySequence_Fast, PySequence_Fast_GET_ITEM, PySequence_Fast_GET_SIZE
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE

from types import MemberDescriptorType

cdef extern from "structmember.h":
    ctypedef struct PyMemberDef:
        int type
        Py_ssize_t offset
    int T_OBJECT_EX

cdef extern from "Python.h":
    ctypedef struct PyMemberDescrObject:
        PyMemberDef *d_member

__all__ = ["FieldReader"]

cdef enum:
    MOST_FIELDS = 16


@cython.final
@cython.auto_pickle(False)
cdef class FieldReader:
    """Reads some fields of the objects of a class."""

    cdef type _kind
    cdef Py_ssize_t _n
    cdef Py_ssize_t[MOST_FIELDS] _offsets

    def __init__(self, type kind, *names):
        if len(names) > MOST_FIELDS:
            raise ValueError(f"{len(names)} fields, at most {MOST_FIELDS}")
        self._kind = kind
        self._n = len(names)
        for i, name in enumerate(names):
            slot = getattr(kind, name)
            if type(slot) is not MemberDescriptorType or (<PyMemberDescrObject *>slot).d_member.type != T_OBJECT_EX:
                raise TypeError(f"{kind.__name__}.{name} is not a slot")
            self._offsets[i] = (<PyMemberDescrObject *>slot).d_member.offset

    cdef object _field(self, object one, Py_ssize_t i):
        cdef PyObject *found = (<PyObject **>((<char *><PyObject *>one) + self._offsets[i]))[0]
        if found is NULL:
            raise AttributeError(f"a field of {self._kind.__name__} was deleted")
        return <object>found

    cdef int _check(self, object one) except -1:
        if not isinstance(one, self._kind):
            raise TypeError(f"{type(one).__name__} is not {self._kind.__name__}")
        return 0

    cdef bint _has(self, object one, object values) except -1:
        cdef Py_ssize_t i
        cdef object field, value
        self._check(one)
        if not isinstance(values, tuple) or PyTuple_GET_SIZE(values) != self._n:
            return False
        for i in range(self._n):
            field = self._field(one, i)
            value = <object>PyTuple_GET_ITEM(values, i)
            # Mostly the same object; comparing may run Python, which may change the field.
            if field is not value and not PyObject_RichCompareBool(field, value, Py_EQ):
                return False
        return True

    def values(self, objects):
        """Return a tuple with the fields of each object."""
        cdef list found = []
        for one in list(objects):
            self._check(one)
            found.append(tuple([self._field(one, i) for i in range(self._n)]))
        return found

    def begin_with(self, objects, values):
        """Return whether the first objects have these fields; the last is compared first."""
        cdef object left = PySequence_Fast(objects, "objects must be a sequence")
        cdef object right = PySequence_Fast(values, "values must be a sequence")
        cdef Py_ssize_t i, k, n = PySequence_Fast_GET_SIZE(right)
        for k in range(n):
            i = k - 1 if k else n - 1
            # In each round, since a comparison may have shortened them.
            if i >= PySequence_Fast_GET_SIZE(left) or i >= PySequence_Fast_GET_SIZE(right):
                return False
            if not self._has(<object>PySequence_Fast_GET_ITEM(left, i), <object>PySequence_Fast_GET_ITEM(right, i)):
                return False
        return True
