# SPDX-License-Identifier: Apache-2.0
"""Fovea through its Python package: a plan, outputs given."""
import fovea

BASE = "Fovea"


class Fovea:
    def __init__(self, name, paged):
        self.name, self.paged = name, paged

    def missing(self, device):
        return None

    def arguments(self, problem, kv_set):
        if self.paged:
            return fovea.Kv(k=kv_set.k_pages, v=kv_set.v_pages, page_table=problem.table, kv_lens=problem.lens)
        return fovea.Kv(k=kv_set.k, v=kv_set.v, kv_lens=problem.lens)

    def prepare(self, problem):
        case = problem.case
        options = dict(cu_seqlens_q=problem.cu_q, mask="causal", max_q_len=case.queries)
        caches = [self.arguments(problem, s) for s in problem.sets]
        outs = [problem.torch.empty_like(s.q) for s in problem.sets[:2]]
        plan = fovea.plan("attention", problem.sets[0].q, caches[0], out=outs[0], **options)

        def call(i):
            return plan(problem.sets[i].q, caches[i], cu_seqlens_q=problem.cu_q, out=outs[i % 2])

        return [lambda i=i: call(i) for i in range(len(caches))], plan.explain()


ADAPTERS = [Fovea(BASE, False), Fovea("Fovea, pages of 16", True)]
