"""PrivKV: draw an index, say noisily whether its key is held, and with which sign.

Of the drawn key a holder says "held" with chance a, a non-holder with chance b = 1 - a; a holder's
sign is kept with chance p, a non-holder's is a coin. The paper adds the two budgets, epsilon/2 each.
With coins for fake signs the true loss is smaller, max(e2, e1 * 2 e2 / (e2 + 1)) with e1 = a/b and
e2 = p/(1 - p): at epsilon = 1 it is e**0.719. `naive` is the paper's split and the default; `tight`
spends the rest: e1 = (E + 1)/2, e2 = E = e**epsilon.

Estimates debias both the key and the sign, so the mean is consistent; the paper's own mean is not
corrected for non-holders and stays biased towards their coin.

[PrivKV] Ye, Hu, Meng, Zheng: PrivKV: Key-Value Data Collection with Local Differential Privacy,
IEEE S&P 2019, Algorithms 2 to 4 (their p1, p2 are our a, p).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, ClassVar, Self

from keyveil.mechanisms.base import Allocation, Ask
from keyveil.mechanisms.channel import Channel
from keyveil.mechanisms.index.indexed import SampledIndex
from keyveil.numerics import WORD_BITS, ceil_div, exp_below


class PrivKv(SampledIndex):
    """A sampled index; two-sided noise on "held"; a noisy sign.

    >>> from keyveil.numerics import epsilon_above
    >>> m = PrivKv.for_epsilon(1, n_keys=100)
    >>> round(epsilon_above(m.loss), 6)
    0.71907
    """

    __slots__ = ()
    id: ClassVar[str] = "privkv"
    allocations: ClassVar[tuple[Allocation, ...]] = (Allocation.NAIVE, Allocation.TIGHT)
    fields: ClassVar[tuple[str, ...]] = ("epsilon", "allocation")

    @classmethod
    def calibrate(cls, ask: Ask) -> Self:
        """The paper's split by default; `pairs_per_user` plays no part, records are not padded."""
        if ask.allocation is Allocation.TIGHT:
            sign_odds = exp_below(ask.epsilon)
            key_odds = (sign_odds + 1) / 2
        else:
            sign_odds = key_odds = exp_below(ask.epsilon / 2)
        return cls.for_odds(key_odds, sign_odds, n_keys=ask.n_keys, word_bits=ask.word_bits)

    @classmethod
    def for_odds(
        cls, key_odds: Fraction, sign_odds: Fraction, *, n_keys: int, word_bits: int = WORD_BITS
    ) -> Self:
        """The most truthful instance with a/b at most `key_odds` and p/(1 - p) at most `sign_odds`."""
        words = 1 << word_bits
        fake = ceil_div(words, 2 * (key_odds + 1))
        held = words - 2 * fake  # a and 1 - b are the same words, as b = 1 - a
        keep = int(held * sign_odds / (sign_odds + 1))
        channel = Channel(keep=keep, flip=held - keep, fake=fake, word_bits=word_bits)
        return cls(n_keys=n_keys, channel=channel)


class PrivKvSplit(PrivKv):
    """The same with a budget for "held" and another for the sign: the first round of PrivKVM.

    >>> m = PrivKvSplit.for_budgets(Fraction(1, 2), Fraction(1, 6), n_keys=100)
    >>> m.parameters.to_json()
    {'id': 'privkv-split', 'key_epsilon': '1/2', 'sign_epsilon': '1/6'}
    """

    __slots__ = ()
    id: ClassVar[str] = "privkv-split"
    allocations: ClassVar[tuple[Allocation, ...]] = (Allocation.NAIVE,)
    fields: ClassVar[tuple[str, ...]] = ("key_epsilon", "sign_epsilon")

    @classmethod
    def for_budgets(cls, key_epsilon: Fraction, sign_epsilon: Fraction, *, n_keys: int) -> Self:
        """The most truthful instance with these two budgets."""
        return cls.named(split_ask(key_epsilon, sign_epsilon, n_keys=n_keys))

    @classmethod
    def calibrate(cls, ask: Ask) -> Self:
        """Each budget for its own."""
        key_odds, sign_odds = (exp_below(ask.options[name]) for name in cls.fields)
        return cls.for_odds(key_odds, sign_odds, n_keys=ask.n_keys, word_bits=ask.word_bits)


def split_ask(
    key_epsilon: Fraction, sign_epsilon: Fraction, *, n_keys: int, word_bits: int = WORD_BITS, **options: Any
) -> Ask:
    """A request for two budgets."""
    return Ask(
        epsilon=key_epsilon + sign_epsilon,
        n_keys=n_keys,
        pairs_per_user=1,
        allocation=Allocation.NAIVE,
        word_bits=word_bits,
        options={"key_epsilon": key_epsilon, "sign_epsilon": sign_epsilon, **options},
    )
