"""The collector: takes reports over HTTP, counts each exactly once, drives rounds, publishes releases.

endpoints   every request in one table: the router, the OpenAPI document and the tests follow it
intake      the report route: what is settled before a body is read
upload      bytes become reports, sorted by round
writer      what waits becomes one transaction
commit      ids, reports and tallies of a group, all or nothing
store       SQLite in one process, PostgreSQL for several
rounds      campaigns and rounds, rebuilt from the tallies
service     everything that is not an upload
problems    every refusal, its meaning and what to do
"""
