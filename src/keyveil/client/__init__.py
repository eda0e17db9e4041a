"""The device's side: standard library only, secure randomness, one report whatever the record."""

from keyveil.client.reporter import Reporter

__all__ = ["Reporter"]
