"""A relay: takes sealed reports from devices and forwards them to a collector in shuffled batches.

It sees addresses and times and cannot read a report; the collector reads reports and sees no address, time or
order. `keyveil relay` runs one; `docs/relay.md` says who should.

    store        what waits and what was batched, on disk
    sealed       an upload of sealed reports, taken apart
    campaigns    which campaigns and rounds there are, as the collector says
    taking       the writer: on disk before a device hears "accepted"
    batching     when a batch is made, of whom, and in which order
    forwarding   to the collector, exactly once, through outages
    relay        all of it, without HTTP
    app          behind HTTP
"""
