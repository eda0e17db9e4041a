"""From the literature: protocols of several rounds that we compare with, PrivKVM's family and PrivKVM*."""
