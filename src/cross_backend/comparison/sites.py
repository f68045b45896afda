"""Sites: what the addresses of ``--on`` name, connected."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from cross_backend.cache import Cache
from cross_backend.comparison.site import HERE, Site, WithPython
from cross_backend.places.address import Address
from cross_backend.places.python import prepare
from cross_backend.places.ssh import SshPlace
from cross_backend.worker.process import Worker


@contextmanager
def site_at(address: Address, cache: Cache) -> Iterator[Site]:
    """Connect to a place and make it ready; all that was started there ends with the context.

    Raises:
        PlaceError: it cannot be reached, or lacks something; the text says what to do.
    """
    if address.kind == "local":
        yield HERE
        return
    with ExitStack() as stack:
        place = stack.enter_context(SshPlace(address))
        python = address.option("python", "python3")
        elsewhere = prepare(place, python, cache)
        observer = stack.enter_context(Worker(cache.log("there"), python, elsewhere=elsewhere))
        yield WithPython(place, elsewhere, python, observer)
