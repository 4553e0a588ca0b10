"""
The storage drivers. Open one by its URL with :func:`eventlog.open_store`, or import its
class from its module.
"""
