"""Adapters: the outside world, one package per thing."""
