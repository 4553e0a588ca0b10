"""
Full-text search: the analyzer, the engines behind one seam, ranking, excerpts and cursors.

What users need of it is exported by :mod:`eventlog.query`. Authors of engines begin with
:mod:`~eventlog.query.search.provider`; how text becomes words stands in
:mod:`~eventlog.query.search.analyzer`, how an index is kept in
:mod:`~eventlog.query.search.layout` and :mod:`~eventlog.query.search.catching_up`.
"""
