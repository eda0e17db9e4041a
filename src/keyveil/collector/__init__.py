"""The collector: takes reports over HTTP, counts each exactly once, drives rounds, publishes releases.

http        every request in one table of endpoints, the route of reports, limits, the server
writing     bytes become reports, what waits becomes one transaction, all of it or nothing
campaigns   everything that is not an upload: campaigns, rounds, tokens, what is read out
store       SQLite in one process, PostgreSQL for several
problems    every refusal, its meaning and what to do
"""
