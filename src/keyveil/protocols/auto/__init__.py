"""auto: the planner's choice, with small groups that learn what the choice and the estimates need.

Every user is in one group and answers once, with the whole budget:

    sizes      3 %, where records may hold several pairs: how many pairs a user holds, in classes
    values     at most 5 %: the sign of one value; anchors the means where keys say little themselves
    collect    the rest, by the mechanism and padding length that promise least error for these sizes
    check      2 %, where records are cut: how long the records are that hold popular keys

With long records (a padding length of 5 and more) two rounds take the place of `collect`:

    discover   half of those left: frequencies alone (both signs of a key share their bucket)
    overlap    2 %: how many of the candidates a user holds
    measure    the rest, about the candidates only, so with shorter records

Where frequencies alone are wanted nobody tells a value; with one pair a user that leaves one round, in which
everybody tells a key by `subset` where that promises least. Where distributions are wanted, all but those who
gave a size answer one round of `ue-sw` (`distribution`).

Candidates are the keys that may well belong to the top. Nothing of `discover` is thrown away: what it
says about a candidate is multiplied into what `measure` says.

The outcome's raw numbers are the unbiased ones of `collect` (or of `measure`, and of `discover` for
keys that are no candidates); where records are cut, taken through `untruncate` (the size model), so
that intervals are about whole records. What is published went through `shrink` as well.

`protocol` says which round follows which; a module a stage opens its round and reads the answers; `outcome`
puts them together; `tuning` holds every number, by version.
"""

from keyveil.protocols.auto.outcome import TRUNCATED
from keyveil.protocols.auto.protocol import Auto
from keyveil.protocols.auto.tuning import NEWEST, TUNINGS, Tuning

__all__ = ["NEWEST", "TRUNCATED", "TUNINGS", "Auto", "Tuning"]
