# SPDX-License-Identifier: Apache-2.0
"""Attention and a paged, quantised cache for models of Hugging Face transformers (v5).

    import fovea.transformers
    fovea.transformers.register()
    model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="fovea")
    cache = fovea.transformers.Cache(max_length=4096, format="fp8")
    model.generate(**inputs, past_key_values=cache)

Masks that transformers describes by a function are served exactly: causal ones, windows and padding by the kernel's own
masks, every other (packed sequences, chunks, blocks) as packed bits.
"""
import torch
from transformers import AttentionInterface, AttentionMaskInterface, cache_utils, masking_utils

import fovea
import fovea.torch as ft

NAME = "fovea"
FORMATS = ("f32", "f16", "bf16", "fp8")


def register(name=NAME):
    """Adds the attention implementation and its mask under one name."""
    AttentionInterface.register(name, attention)
    AttentionMaskInterface.register(name, mask)


# -- masks --

def mask(batch_size, q_length, kv_length, q_offset=0, kv_offset=0, mask_function=masking_utils.causal_mask_function, attention_mask=None, **kwargs):
    """None where `attention` needs to be told nothing; [batch, kv] of the padding; else [batch, 1, q, kv], True where seen."""
    plain = mask_function is masking_utils.causal_mask_function or _is_window(mask_function) or _sees_all(mask_function)
    aligned = _sees_all(mask_function) or (type(q_offset) is int and q_offset + q_length == kv_offset + kv_length)
    if not plain or not aligned or (attention_mask is not None and attention_mask.shape[1] not in (kv_length, kv_offset + kv_length)):
        kwargs.update(allow_is_causal_skip=False, allow_is_bidirectional_skip=False)
        return masking_utils.sdpa_mask(batch_size, q_length, kv_length, q_offset, kv_offset, mask_function, attention_mask, **kwargs)
    if attention_mask is None or (not torch.compiler.is_compiling() and attention_mask.all()):
        return None
    return attention_mask[:, -kv_length:]


def _sees_all(function):
    return function is masking_utils.bidirectional_mask_function


def _is_window(function):
    """Whether it is transformers' causal window and nothing else; `attention` is told the window by the model."""
    inner = [cell.cell_contents for cell in function.__closure__ or ()]
    parts = next((list(cell) for cell in inner if isinstance(cell, tuple)), [])
    names = [part.__qualname__.partition(".")[0] for part in parts]
    return function.__qualname__.startswith("and_masks.") and names == ["sliding_window_overlay", "causal_mask_function"]


def _bits(seen):
    """[batch, rows, keys] of bool as u32 words, LSB first, with as many rows."""
    batch, rows, keys = seen.shape
    words = -(-keys // 32)
    wide = torch.nn.functional.pad(seen, (0, 32 * words - keys)).view(batch, rows, words, 32).long()
    values = (wide << torch.arange(32, device=seen.device)).sum(dim=3)
    return torch.where(values >= 1 << 31, values - (1 << 32), values).int().view(torch.uint32)


def _mask_arguments(attention_mask, batch, q_length, kv_length, causal, window):
    """The mask's arguments of fovea.attention."""
    arguments = {}
    if attention_mask is not None and attention_mask.ndim == 4:
        if attention_mask.dtype != torch.bool:
            raise NotImplementedError(f"attention_mask of {attention_mask.dtype}: 4-D masks must be bool, True where a key is seen")
        if attention_mask.shape[1] != 1:
            raise NotImplementedError(f"attention_mask.shape[1] is {attention_mask.shape[1]}: must be 1, the same mask for every head")
        seen = attention_mask[:, 0, :, :kv_length].expand(batch, -1, -1)
    else:
        seen = None if attention_mask is None else attention_mask[:, None, :].bool()
        if window is not None:
            arguments.update(mask="window", window_left=window - 1, window_right=0 if causal else window - 1)
        elif causal:
            arguments["mask"] = "causal"
    if seen is not None:
        arguments["mask_bits"] = _bits(seen).expand(-1, q_length, -1)
        arguments["mask_lens"] = torch.full((batch,), seen.shape[-1], dtype=torch.int32, device=seen.device)
    return arguments


# -- attention --

def attention(module, query, key, value, attention_mask, dropout=0.0, scaling=None, is_causal=None, sliding_window=None, softcap=None, s_aux=None, **kwargs):
    """query [batch, heads, q, d]; key and value [batch, kv heads, kv, d], or what Cache.update returned."""
    if dropout and module.training:
        raise NotImplementedError(f"dropout is {dropout}: Fovea serves inference; use model.eval()")
    if kwargs.get("output_attentions"):
        raise NotImplementedError("output_attentions: the weights are never in memory; use attn_implementation='eager'")
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    batch, _, q_length, _ = query.shape
    kv_length = key.shape[2]
    options = dict(scale=scaling or 0.0, softcap=softcap or 0.0, sinks=None if s_aux is None else s_aux.detach().float())
    query = _last_packed(query.transpose(1, 2))
    cu_seqlens = kwargs.get("cu_seq_lens_q")
    if cu_seqlens is not None and batch == 1 and not isinstance(key, Stored):
        return _packed(query, key, value, causal, sliding_window, options, kwargs), None
    if isinstance(key, Stored):
        kv = key.layer.kv()
    else:
        lens = torch.full((batch,), kv_length, dtype=torch.int32, device=query.device)
        kv = ft.Kv(k=_last_packed(key.transpose(1, 2)), v=_last_packed(value.transpose(1, 2)), kv_lens=lens)
    options.update(_mask_arguments(attention_mask, batch, q_length, kv_length, causal, sliding_window))
    return ft.attention(query, kv, **options), None


def _packed(query, key, value, causal, window, options, kwargs):
    """Sequences one after the other in a batch of one, which their cumulative lengths tell apart."""
    kv = ft.Kv(k=_last_packed(key[0].transpose(0, 1)), v=_last_packed(value[0].transpose(0, 1)), cu_seqlens_kv=kwargs["cu_seq_lens_k"])
    options.update(_mask_arguments(None, 1, 0, 0, causal, window))
    return ft.attention(query[0], kv, cu_seqlens_q=kwargs["cu_seq_lens_q"], **options)[None]


def _last_packed(tensor):
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


# -- cache --

class Stored(torch.Tensor):
    """What Cache.update returns in place of keys and values: they have a shape, and are in the pages of `layer`."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        name = getattr(function, "__name__", "")
        if name in ("__get__", "size", "dim", "__repr__", "stride", "element_size"):
            return super().__torch_function__(function, types, args, kwargs or {})
        raise TypeError(f"{name} of keys in fovea.transformers.Cache: it goes with attn_implementation='{NAME}' alone")


def _stored(layer, like, length):
    shape = (*like.shape[:2], length, like.shape[3])
    made = like.new_empty(1).expand(shape).as_subclass(Stored)
    made.layer = layer
    return made


class Layer(cache_utils.CacheLayerMixin):
    """The pages of one model layer. Lengths, page tables and slots are the same in every layer: `store` keeps them."""

    is_croppable = True
    is_sliding = False  # windows are the kernel's; every token is kept
    supports_early_init = False

    def __init__(self, store):
        super().__init__()
        self.store, self.length = store, 0

    def lazy_initialization(self, key_states, value_states):
        store = self.store
        self.dtype, self.device = key_states.dtype, key_states.device
        store.start(key_states.shape[0], self.device)
        stored = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "fp8": torch.float8_e4m3fn}[store.format]
        heads = key_states.shape[1]
        self.keys, self.values = (
            torch.empty(store.pages, store.page_size, heads, x.shape[3], dtype=stored, device=self.device)
            for x in (key_states, value_states)
        )
        self.scales = {}
        if store.format == "fp8":
            scale = torch.tensor([store.scale], dtype=torch.float32, device=self.device)
            self.scales = {"k_scale": scale, "v_scale": scale}
        self.is_initialized = True

    def kv(self):
        return ft.Kv(k=self.keys, v=self.values, page_table=self.store.table, kv_lens=self.store.lens, **self.scales)

    def update(self, key_states, value_states, *args, **kwargs):
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        batch, _, tokens, _ = key_states.shape
        self.length += tokens
        slots = self.store.grow(self.length, batch)
        self.copy_pages()
        k, v = (_last_packed(x.transpose(1, 2).flatten(0, 1)) for x in (key_states, value_states))
        ft.kv_append(k, v, self.kv(), slots)
        return _stored(self, key_states, self.length), _stored(self, value_states, self.length)

    def copy_pages(self):
        """Pages that two sequences shared, before one of them writes."""
        if self.store.copies is not None:
            src, dst = self.store.copies.unbind(1)
            for pages in (self.keys.view(torch.uint8), self.values.view(torch.uint8)):  # by PyTorch: CUDA has no kv_copy yet
                pages[dst] = pages[src]

    def get_mask_sizes(self, query_length):
        return self.length + query_length, 0

    def get_seq_length(self):
        return self.length

    def get_max_length(self):
        return -1  # not a static cache for generate; `store` says when it is full

    def reset(self):
        self.length = 0
        self.store.cut(0)

    def crop(self, tokens_to_remove):
        if tokens_to_remove > 0:
            raise ValueError(f"tokens_to_remove is {tokens_to_remove}: must be 0 or negative, how many to remove")
        self.length = max(self.length + tokens_to_remove, 0)
        self.store.cut(self.length)

    def reorder_cache(self, beam_idx):
        self.store.choose(beam_idx, self)

    def batch_select_indices(self, indices):
        self.store.choose(indices, self)

    def batch_repeat_interleave(self, repeats):
        self.store.choose(torch.arange(self.store.batch).repeat_interleave(repeats), self)

    def offload(self):
        raise NotImplementedError("offload: pages stay on their device")


class Store:
    """Which pages the sequences of a batch have, for all layers of a cache."""

    def __init__(self, max_length, format, page_size, scale, batch):
        self.max_length, self.format, self.page_size, self.scale, self.max_batch = max_length, format, page_size, scale, batch
        self.pool = None

    def start(self, batch, device):
        if self.pool is not None:
            return
        self.device, self.length = device, 0
        # Beams that part from a shared page need one more each until the others have gone.
        self.pages = max(batch, self.max_batch) * (-(-self.max_length // self.page_size) + 1)
        self.pool = fovea.PagePool(self.pages, self.page_size)
        self.sequences = [self.pool.open() for _ in range(batch)]
        self.copies = self.slots = None
        self.chosen = set()
        self._tables()

    @property
    def batch(self):
        return len(self.sequences)

    def _tables(self):
        columns = -(-self.max_length // self.page_size)
        rows = [[*self.pool.pages(s)] for s in self.sequences]
        self.table = torch.tensor([row + [-1] * (columns - len(row)) for row in rows], dtype=torch.int32).to(self.device)
        self.lens = torch.full((self.batch,), self.length, dtype=torch.int32, device=self.device)

    def grow(self, length, batch):
        """The slots of the new tokens: the first layer of a step takes them, the others get the same."""
        if batch != self.batch:
            raise ValueError(f"the batch is {batch}: the cache holds {self.batch} sequences; reset() does not change that, a new cache does")
        if length > self.length:
            if length > self.max_length:
                raise ValueError(f"the sequence has {length} tokens: the cache was made for max_length = {self.max_length}")
            grown = [self.pool.append(s, length - self.length) for s in self.sequences]
            copies = [pair for _, pair in grown if pair is not None]
            self.copies = torch.tensor(copies).to(self.device) if copies else None
            self.slots = torch.tensor([slot for slots, _ in grown for slot in slots], dtype=torch.int64).to(self.device)
            self.length = length
            self.chosen = set()
            self._tables()
        return self.slots

    def cut(self, length):
        if self.pool is None or length >= self.length:
            return
        for sequence in self.sequences:
            self.pool.truncate(sequence, length)
        self.length, self.copies = length, None
        self._tables()

    def choose(self, indices, layer):
        """New sequences are forks of the chosen ones; pages are shared until one writes. Every layer asks: once counts."""
        if self.pool is None:
            return
        if id(layer) in self.chosen or not self.chosen:
            self.chosen = {id(layer)}
            forks = [self.pool.fork(self.sequences[i], self.length) for i in indices.tolist()]
            for sequence in self.sequences:
                self.pool.close(sequence)
            self.sequences, self.copies = forks, None
            self._tables()
        else:
            self.chosen.add(id(layer))


class Cache(cache_utils.Cache):
    """Keys and values in pages of a format, for attn_implementation="fovea": `past_key_values` of a model's call or of generate.

    max_length  tokens of a sequence, those to come included
    format      "bf16", "f16", "f32" or "fp8" (e4m3 = value / scale, saturating)
    page_size   tokens
    scale       of fp8
    batch       where more sequences will be chosen than the first call has, how many
    """

    def __init__(self, max_length, format="bf16", page_size=16, scale=1.0, batch=0):
        if format not in FORMATS:
            raise ValueError(f"format is {format!r}: must be one of {', '.join(FORMATS)}")
        self.store = Store(max_length, format, page_size, scale, batch)
        super().__init__(layer_class_to_replicate=lambda: Layer(self.store))
