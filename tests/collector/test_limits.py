"""Who has a place, and who makes room."""

from keyveil.collector.http.limits import Connections


class Somebody:
    """A connection that is being answered, or not."""

    def __init__(self, is_answered=False):
        self.is_answered, self.is_gone = is_answered, False

    def abort(self):
        self.is_gone = True


def test_who_opens_many_connections_loses_their_own():
    connections = Connections(10, 2)
    honest, crowd = Somebody(), [Somebody() for _ in range(30)]
    assert connections.add("10.0.0.1", honest)
    assert all(connections.add("10.0.0.2", one) for one in crowd)
    assert len(connections) == 10
    assert not honest.is_gone
    # The longest silent went first.
    assert [one.is_gone for one in crowd] == [True] * 21 + [False] * 9
    connections.hear("10.0.0.2", crowd[21])
    assert connections.may_upload(crowd[29])
    assert (crowd[21].is_gone, crowd[22].is_gone) == (False, True)


def test_the_last_places_are_for_those_who_ask():
    connections = Connections(10, 2)
    busy = [Somebody(is_answered=True) for _ in range(8)]
    assert all(connections.add("10.0.0.2", one) and connections.may_upload(one) for one in busy)
    operator, sender, late = Somebody(), Somebody(), Somebody()
    assert connections.add("10.0.0.1", operator)
    assert connections.add("10.0.0.3", sender)
    # Where all others are being answered, nobody else sends; once one is through, they do.
    operator.is_answered = True
    assert not connections.may_upload(sender)
    busy[3].is_answered = False
    assert connections.may_upload(sender)
    assert busy[3].is_gone
    sender.is_answered = True
    assert connections.add("10.0.0.4", late)
    late.is_answered = True
    assert not connections.add("10.0.0.4", Somebody())
    connections.remove("10.0.0.4", late)
    assert connections.add("10.0.0.4", Somebody())
