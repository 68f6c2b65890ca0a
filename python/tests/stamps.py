"""The version and the hash of the machine in the JSON of commands."""

import re

import cubeyard


def unstamped(printed, *, machine=True):
    """Returns JSON of a command without its version and the hash of its machine, which are checked."""
    if isinstance(printed, list):
        return [unstamped(item, machine=machine) for item in printed]
    rest = dict(printed)
    assert rest.pop("version") == cubeyard.__version__
    assert not machine or re.fullmatch("[0-9a-f]{32}", rest.pop("topology"))
    return rest
