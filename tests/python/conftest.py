# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest


@pytest.fixture
def rng(request):
    """Random numbers of the test's own, the same in every run."""
    return np.random.default_rng(sum(map(ord, request.node.name)))
