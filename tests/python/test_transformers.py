# SPDX-License-Identifier: Apache-2.0
"""fovea.transformers beside transformers' own eager attention, on small random models whose attention is peaked. Skipped where
transformers is not installed; FOVEA_TEST_DEVICE=cuda runs it on a card."""
import os

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import fovea.transformers  # noqa: E402

DEVICE = os.environ.get("FOVEA_TEST_DEVICE", "cpu")
# Of logits of size 1 to 10. CUDA's attention takes no f32 cache: models are f16 there.
DTYPE, STORED, TOLERANCE, FAR = (torch.float32, "f32", 2e-4, 2e-2) if DEVICE == "cpu" else (torch.float16, "f16", 5e-2, 0.5)
on_cpu = pytest.mark.skipif(DEVICE != "cpu", reason="tokens of f16 models may differ where two are nearly as likely")
SMALL = dict(
    vocab_size=128, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=32,
    max_position_embeddings=256, pad_token_id=0, bos_token_id=1, eos_token_id=2, tie_word_embeddings=False,
)
MODELS = {
    "llama": (transformers.LlamaConfig, {}),
    "qwen3": (transformers.Qwen3Config, {}),
    "gemma2": (transformers.Gemma2Config, dict(attn_logit_softcapping=3.0, final_logit_softcapping=None, query_pre_attn_scalar=16, sliding_window=7)),
    "gemma3": (transformers.Gemma3TextConfig, dict(sliding_window=7, query_pre_attn_scalar=16, layer_types=["sliding_attention", "full_attention"])),
    "gpt_oss": (transformers.GptOssConfig, dict(sliding_window=7, num_local_experts=4, num_experts_per_tok=2, layer_types=["sliding_attention", "full_attention"])),
    "mistral": (transformers.MistralConfig, dict(sliding_window=7)),
}


@pytest.fixture(scope="module", autouse=True)
def registered():
    fovea.transformers.register()
    if DEVICE == "cuda":
        fovea.Context("cuda:0", compile="allowed").set_default()


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    config_class, more = MODELS[request.param]
    torch.manual_seed(7)
    made = transformers.AutoModelForCausalLM.from_config(config_class(**{**SMALL, **more}), attn_implementation="eager").to(DEVICE, DTYPE).eval()
    with torch.no_grad():
        for name, weight in made.named_parameters():
            if "q_proj" in name or "k_proj" in name:
                weight.mul_(12)  # peaked: logits of attention have a deviation of several units
            elif "q_norm" in name or "k_norm" in name:
                weight.add_(1.0)
            elif "sinks" in name:
                weight.copy_(torch.linspace(1, 4, weight.numel()))
            elif "proj" in name or "lm_head" in name or "embed" in name:
                weight.mul_(4)
    return made


def tokens(batch, length):
    return torch.randint(3, 128, (batch, length), generator=torch.Generator().manual_seed(batch * length)).to(DEVICE)


def run(model, implementation, *args, **kwargs):
    model.set_attn_implementation(implementation)
    with torch.no_grad():
        return model(*args, **kwargs)


def differs(a, b):
    return (a.float() - b.float()).abs().max().item()


def test_prefill(model):
    ids = tokens(2, 33)
    want, got = (run(model, name, ids, use_cache=False).logits for name in ("eager", "fovea"))
    assert differs(got, want) < TOLERANCE


def padded(batch, length):
    ids = tokens(batch, length)
    seen = torch.ones_like(ids)
    for row, pad in enumerate([0, 5, 11][:batch]):
        ids[row, :pad], seen[row, :pad] = 0, 0
    return ids, seen


def test_left_padding(model):
    ids, seen = padded(3, 24)
    want, got = (run(model, name, ids, attention_mask=seen).logits[seen.bool()] for name in ("eager", "fovea"))
    assert differs(got, want) < TOLERANCE
    assert differs(run(model, "fovea", ids).logits[seen.bool()], want) > FAR


@pytest.mark.parametrize("cache", ["dynamic", STORED])
def test_chunked_prefill_and_generation(model, cache):
    ids, seen = padded(3, 40)
    positions = (seen.cumsum(1) - 1).clamp(min=0)
    want = run(model, "eager", ids, attention_mask=seen, position_ids=positions).logits
    past = transformers.DynamicCache(config=model.config) if cache == "dynamic" else fovea.transformers.Cache(64, STORED, page_size=8)
    start = 0
    for n in (13, 1, 12, 1, 1, 1, 11):
        out = run(model, "fovea", ids[:, start : start + n], attention_mask=seen[:, : start + n], past_key_values=past,
                  position_ids=positions[:, start : start + n])
        past, rows = out.past_key_values, seen[:, start : start + n].bool()
        assert differs(out.logits[rows], want[:, start : start + n][rows]) < TOLERANCE, f"after {start}"
        start += n
    assert past.get_seq_length() == 40


def test_packed_sequences(model):
    ids = tokens(1, 30)
    positions = torch.cat([torch.arange(n) for n in (11, 4, 15)])[None].to(DEVICE)
    want, got = (run(model, name, ids, position_ids=positions, use_cache=False).logits for name in ("eager", "fovea"))
    assert differs(got, want) < TOLERANCE
    cu = torch.tensor([0, 11, 15, 30], dtype=torch.int32, device=DEVICE)
    told = run(model, "fovea", ids, position_ids=positions, use_cache=False, cu_seq_lens_q=cu, cu_seq_lens_k=cu, max_length_q=15, max_length_k=15)
    alone = [run(model, "eager", part, use_cache=False).logits for part in ids.split([11, 4, 15], dim=1)]
    assert differs(told.logits, torch.cat(alone, dim=1)) < TOLERANCE
    assert differs(run(model, "fovea", ids, use_cache=False).logits, want) > FAR


def test_custom_mask(model):
    if len(set(getattr(model.config, "layer_types", None) or [0])) > 1:
        pytest.skip("one mask for both kinds of layers is not what this model takes")
    ids, seen = tokens(1, 12), torch.rand(1, 1, 12, 12, generator=torch.Generator().manual_seed(1)).to(DEVICE) > 0.5
    seen |= torch.eye(12, dtype=torch.bool, device=DEVICE)
    additive = torch.where(seen, 0.0, torch.finfo(DTYPE).min).to(DTYPE)
    want = run(model, "eager", ids, attention_mask=additive, use_cache=False).logits
    assert differs(run(model, "fovea", ids, attention_mask=seen, use_cache=False).logits, want) < TOLERANCE
    with pytest.raises(NotImplementedError, match="4-D masks must be bool"):
        run(model, "fovea", ids, attention_mask=additive, use_cache=False)


def test_every_option_moves_the_logits(model, monkeypatch):
    """Attention without one of its arguments is far from eager: none is dropped unseen."""
    ids = tokens(2, 33)
    want = run(model, "eager", ids, use_cache=False).logits
    given = set()
    real = fovea.transformers.attention

    def without(name):
        def attention(*args, **kwargs):
            if kwargs.get(name) is not None:
                given.add(name)
                kwargs[name] = None
            return real(*args, **kwargs)

        return attention

    for name in ("scaling", "sliding_window", "softcap", "s_aux"):
        transformers.AttentionInterface.register("fovea", without(name))
        try:
            off = differs(run(model, "fovea", ids, use_cache=False).logits, want)
        finally:
            fovea.transformers.register()
        default = name == "scaling" and model.config.model_type not in ("gemma2", "gemma3_text")  # 1 / sqrt(d) either way
        assert name not in given or default or off > FAR, name
    expected = {"gemma2": {"softcap", "sliding_window"}, "gemma3_text": {"sliding_window"}, "gpt_oss": {"s_aux", "sliding_window"}, "mistral": {"sliding_window"}}
    assert given - {"scaling"} >= expected.get(model.config.model_type, set())


@on_cpu
def test_generate_is_eager(model):
    ids, seen = padded(2, 12)
    arguments = dict(attention_mask=seen, max_new_tokens=12, do_sample=False, eos_token_id=None)
    model.set_attn_implementation("eager")
    want = model.generate(ids, **arguments)
    model.set_attn_implementation("fovea")
    assert torch.equal(model.generate(ids, **arguments), want)
    assert torch.equal(model.generate(ids, past_key_values=fovea.transformers.Cache(32, STORED), **arguments), want)


@on_cpu
def test_beams_share_pages(model):
    ids, _ = padded(2, 12)
    arguments = dict(max_new_tokens=8, num_beams=3, do_sample=False, eos_token_id=None)
    model.set_attn_implementation("eager")
    want = model.generate(ids, **arguments)
    model.set_attn_implementation("fovea")
    cache = fovea.transformers.Cache(32, STORED, page_size=4)
    assert torch.equal(model.generate(ids, past_key_values=cache, **arguments), want)


@pytest.mark.parametrize("format, bound", [("bf16", 0.3), ("f16", 0.05), ("fp8", 3.0)] if DEVICE == "cpu" else [("fp8", 3.0)])
def test_formats(model, format, bound):
    ids = tokens(2, 20)
    past = fovea.transformers.Cache(32, format)
    want = run(model, "eager", ids).logits
    run(model, "fovea", ids[:, :19], past_key_values=past)
    got = run(model, "fovea", ids[:, 19:], past_key_values=past).logits
    error = differs(got[:, 0], want[:, 19])
    assert 0 < error < bound * want[:, 19].std().item()


def test_crop_and_reset(model):
    ids = tokens(2, 20)
    want = run(model, "eager", ids).logits
    past = fovea.transformers.Cache(32, STORED, page_size=4)
    run(model, "fovea", torch.cat([ids[:, :15], tokens(2, 4)], dim=1), past_key_values=past)
    past.crop(-4)
    assert past.get_seq_length() == 15
    assert differs(run(model, "fovea", ids[:, 15:], past_key_values=past).logits, want[:, 15:]) < TOLERANCE
    past.reset()
    assert past.get_seq_length() == 0
    assert differs(run(model, "fovea", ids, past_key_values=past).logits, want) < TOLERANCE
    with pytest.raises(ValueError, match="the sequence has 40 tokens: the cache was made for max_length = 32"):
        run(model, "fovea", ids, past_key_values=past)


def test_cache_goes_with_its_attention(model):
    with pytest.raises(TypeError, match="goes with attn_implementation='fovea' alone"):
        run(model, "eager", tokens(1, 5), past_key_values=fovea.transformers.Cache(32))
    with pytest.raises(ValueError, match="format is 'int3': must be one of f32, f16, bf16, fp8"):
        fovea.transformers.Cache(32, "int3")
