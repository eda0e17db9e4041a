"""Many records, many reports: noise in bulk, and tallies of whole partitions on one machine or many.

`perturb_many` noises arrays of records, `tally_partition` counts a partition of reports; `engine` does
that for files on this machine, `spark` for frames on many.
"""

import keyveil.batch.literature  # noqa: F401  # registers what it knows
from keyveil.batch.crossing import crossed
from keyveil.batch.partition import Block, Partition, tally_partition
from keyveil.batch.perturb import perturb_many
from keyveil.batch.records import Records
from keyveil.batch.stream import InsecureSeededStream, SecureStream, Stream

__all__ = [
    "Block",
    "InsecureSeededStream",
    "Partition",
    "Records",
    "SecureStream",
    "Stream",
    "crossed",
    "perturb_many",
    "tally_partition",
]
