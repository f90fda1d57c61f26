"""The rival: Llama, and Mixtral, as somebody would write it by hand in PyTorch, nothing of Lockstep in it."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


def rotated(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class Feed(nn.Module):
    def __init__(self, embed, ffn):
        super().__init__()
        self.gate, self.up = nn.Linear(embed, ffn, bias=False), nn.Linear(embed, ffn, bias=False)
        self.down = nn.Linear(ffn, embed, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Experts(nn.Module):
    """As in Mixtral: every token to the best few, weighed by a softmax over their scores; rows sorted by expert."""

    def __init__(self, embed, ffn, experts, chosen):
        super().__init__()
        self.chosen = chosen
        self.router = nn.Linear(embed, experts, bias=False)
        self.gate, self.up = (nn.Parameter(torch.empty(experts, embed, ffn)) for _ in range(2))
        self.down = nn.Parameter(torch.empty(experts, ffn, embed))

    def forward(self, x):
        tokens = x.flatten(0, 1)
        weight, choice = F.softmax(self.router(tokens).float(), -1).topk(self.chosen, -1)
        weight = weight / weight.sum(-1, keepdim=True)
        experts = choice.flatten()
        order = experts.argsort(stable=True)
        ends = F.one_hot(experts, self.gate.shape[0]).sum(0).cumsum(0).to(torch.int32)
        rows = tokens[order // self.chosen].bfloat16()
        gate, up = (torch._grouped_mm(rows, w.bfloat16(), offs=ends) for w in (self.gate, self.up))
        inner = F.silu(gate) * up * weight.flatten()[order].unsqueeze(-1).to(gate.dtype)
        out = torch._grouped_mm(inner, self.down.bfloat16(), offs=ends)
        return torch.zeros_like(tokens).index_add(0, order // self.chosen, out.to(tokens.dtype)).view_as(x)


class Layer(nn.Module):
    def __init__(self, embed, heads, kv_heads, ffn, experts, chosen):
        super().__init__()
        self.heads, self.kv_heads, self.depth = heads, kv_heads, embed // heads
        self.norm1, self.norm2 = nn.RMSNorm(embed, eps=1e-5), nn.RMSNorm(embed, eps=1e-5)
        self.q = nn.Linear(embed, heads * self.depth, bias=False)
        self.k = nn.Linear(embed, kv_heads * self.depth, bias=False)
        self.v = nn.Linear(embed, kv_heads * self.depth, bias=False)
        self.out = nn.Linear(heads * self.depth, embed, bias=False)
        self.feed = Experts(embed, ffn, experts, chosen) if experts else Feed(embed, ffn)

    def forward(self, x, cos, sin):
        h = self.norm1(x)
        q, k, v = (
            proj(h).unflatten(-1, (n, self.depth)).transpose(1, 2)
            for proj, n in ((self.q, self.heads), (self.k, self.kv_heads), (self.v, self.kv_heads))
        )
        q, k = rotated(q, cos, sin), rotated(k, cos, sin)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.feed(self.norm2(x))


class Llama(nn.Module):
    def __init__(self, layers, embed, heads, kv_heads, ffn, vocab, seq, theta, experts=0, chosen=0, recompute=False):
        super().__init__()
        self.recompute = recompute
        self.tokens = nn.Embedding(vocab, embed)
        self.layers = nn.ModuleList(Layer(embed, heads, kv_heads, ffn, experts, chosen) for _ in range(layers))
        self.norm = nn.RMSNorm(embed, eps=1e-5)
        self.head = nn.Linear(embed, vocab, bias=False)
        half = embed // heads // 2
        angle = torch.arange(seq)[:, None] * theta ** (torch.arange(half) * (-1.0 / half))
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())

    def forward(self, tokens, labels):
        x = self.tokens(tokens)
        cos, sin = self.cos.to(x.dtype), self.sin.to(x.dtype)
        for layer in self.layers:
            x = checkpoint(layer, x, cos, sin, use_reentrant=False) if self.recompute else layer(x, cos, sin)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(), ignore_index=-100)


class PlainTrainer:
    """bf16: weights, gradients and moments in bf16; else f32 weights under autocast."""

    def __init__(self, sizes, lr, decay, clip, bf16, recompute, device):
        self.model = Llama(**sizes, recompute=recompute).to(device)
        if bf16:
            self.model = self.model.to(torch.bfloat16)
        self.autocast = not bf16
        self.clip = clip
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=lr, betas=(0.9, 0.95), eps=1e-8, weight_decay=decay, fused=True
        )
        self.compiled = torch.compile(self.model)

    def step(self, tokens, labels):
        with torch.autocast("cuda", torch.bfloat16, enabled=self.autocast):
            loss = self.compiled(tokens, labels)
        loss.backward()
        if self.clip:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.clip, foreach=True)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss
