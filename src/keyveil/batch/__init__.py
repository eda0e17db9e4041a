"""Many records, many reports: noise in bulk, and tallies of whole partitions on one machine or many."""

from keyveil.batch.perturb import perturb_many
from keyveil.batch.records import Records
from keyveil.batch.stream import InsecureSeededStream, SecureStream, Stream

__all__ = ["InsecureSeededStream", "Records", "SecureStream", "Stream", "perturb_many"]
