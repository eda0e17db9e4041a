"""The dashboard: pages without a build step, and the numbers that they show.

assets      the files of the page, and the policy under which a browser runs them
results     one campaign's release with what a reader needs beside it: ranks, noise
reach       how far devices that lie can move a number
precision   how unsure a key is after so many reports, and which round says so
privacy     the exact promise, in numbers and in words; the privacy label
planning    sliders: any one of five is solved for, and the curve around it

Nothing here knows of HTTP but `assets`, and nothing of the store: the collector asks, and decides who may.
"""
