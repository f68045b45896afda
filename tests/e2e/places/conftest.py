"""A far machine: this one, over a real OpenSSH server on loopback."""

import sys

import pytest

from tests.ssh_server import server


@pytest.fixture(scope="session")
def far():
    """A server that runs; its cache is its own."""
    with server() as found:
        yield found


@pytest.fixture(scope="session")
def there():
    """The address of the far machine, with this interpreter."""
    return f"ssh://there?python={sys.executable}"
