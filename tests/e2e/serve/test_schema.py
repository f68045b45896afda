"""The OpenAPI document against the server: schemathesis asks by it, and worse; nothing breaks, all is as it says."""

import contextlib

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable

from cross_backend.web.guard import TOKEN_HEADER

ENDLESS = frozenset({"/api/events"})
"""Answers that do not end: ``test_api.py`` listens to them."""


def operations(served):
    """Give what the document describes, as schemathesis knows it."""
    import schemathesis

    document = served.get("/openapi.json")
    document["paths"] = {path: row for path, row in document["paths"].items() if path not in ENDLESS}
    return [found.ok() for found in schemathesis.openapi.from_dict(document).get_all_operations()]


def ask_by(operation, mode, cases, ask):
    """Ask so many cases of an address: as the document says, or against it."""

    @settings(
        max_examples=cases,
        database=None,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy(generation_mode=mode), st.data())
    def one(case, data):
        ask(case, data)

    one()


def ask_all(served, cases):
    """Ask so many cases, spread over all addresses, half of them against the document; give the statuses."""
    import requests
    from schemathesis import GenerationMode
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks

    wanted = [
        not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_schema_conformance,
    ]
    keys = served.keys("linear_regression")
    known = [keys["onnxruntime.cpu"], keys["openvino"]]  # both stay open
    token = {TOKEN_HEADER: served.state.access.page_token}
    statuses = []

    def ask(case, data):
        """Ask; often for something that is there, which chance alone would not hit."""
        if "artifact" in (case.query or {}) and data.draw(st.booleans()):
            case.query["artifact"] = [data.draw(st.sampled_from(known))]
        if isinstance(case.body, dict) and "artifact" in case.body and data.draw(st.integers(1, 20)) == 1:
            case.body["artifact"] = data.draw(st.sampled_from(known))  # a profile takes longer than a run
        if "study" in (case.path_parameters or {}) and data.draw(st.booleans()):
            case.path_parameters["study"] = data.draw(st.integers(1, 3))
        answer = case.call(base_url=served.url, session=session, headers=token)
        case.validate_response(answer, checks=wanted)
        statuses.append(answer.status_code)

    found = [(operation, mode) for operation in operations(served) for mode in GenerationMode]
    with requests.Session() as session:
        for operation, mode in found:
            with contextlib.suppress(Unsatisfiable):  # nothing can be against the document where it asks for nothing
                ask_by(operation, mode, -(-cases // len(found)), ask)
    assert {200, 400, 404} <= set(statuses)
    return statuses


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_few_cases_of_each_address_are_answered_as_the_document_says(served):
    assert len(ask_all(served, 100)) >= 50


@pytest.mark.parametrize(
    ("most", "least"),
    [
        pytest.param(1000, 500, marks=pytest.mark.slow),
        pytest.param(10_600, 5000, marks=pytest.mark.nightly),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_no_case_of_thousands_breaks_the_server(served, most, least):
    asked = len(ask_all(served, most))  # an address that asks for nothing has few cases
    assert asked >= least, asked
