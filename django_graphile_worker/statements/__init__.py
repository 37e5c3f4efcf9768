"""One typed function per query file: what is sent, with which parameters, and how it is read.

A statement is a value. It does no I/O until it is run, so the same statement serves a Django
cursor in a view and the worker's own connection.
"""
