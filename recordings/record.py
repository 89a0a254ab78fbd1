import gzip, json, os, pickle, sys, time, traceback
import torch, torchvision
out = sys.argv[1]; os.makedirs(out, exist_ok=True)
deadline = time.time() + float(sys.argv[2])
from torch.profiler import profile, ProfilerActivity, schedule
dev = 'cuda'
def ce(m, x, y): return torch.nn.functional.cross_entropy(m(x), y)
def vision(name, b, px=224):
    def make():
        m = getattr(torchvision.models, name)(weights=None)
        x = torch.randn(b, 3, px, px, device=dev); y = torch.randint(0, 1000, (b,), device=dev)
        return m, lambda m: ce(m, x, y)
    return make
def hf(kind, b, s):
    def make():
        import transformers as t
        if kind == 'bert-base': c = t.BertConfig(); m = t.BertForMaskedLM(c)
        elif kind == 'bert-large': c = t.BertConfig(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096); m = t.BertForMaskedLM(c)
        elif kind == 'gpt2': c = t.GPT2Config(); m = t.GPT2LMHeadModel(c)
        else:
            c = t.LlamaConfig(hidden_size=2048, intermediate_size=8192, num_hidden_layers=8, num_attention_heads=32, num_key_value_heads=8, vocab_size=32000)
            m = t.LlamaForCausalLM(c)
        x = torch.randint(0, c.vocab_size, (b, s), device=dev)
        return m, lambda m: m(input_ids=x, labels=x).loss
    return make
runs = [
 ('resnet50-b32-f32', vision('resnet50', 32), None, False),
 ('bert-large-b8-s512-f32', hf('bert-large', 8, 512), None, False),
 ('resnet50-b64-bf16', vision('resnet50', 64), torch.bfloat16, True),
 ('gpt2-b4-s1024-bf16', hf('gpt2', 4, 1024), torch.bfloat16, True),
 ('llama-1b8l-b1-s2048-bf16', hf('llama', 1, 2048), torch.bfloat16, True),
 ('vit_b_16-b32-tf32', vision('vit_b_16', 32), None, True),
 ('resnet50-b64-tf32', vision('resnet50', 64), None, True),
 ('vgg16-b32-f32', vision('vgg16', 32), None, False),
 ('mobilenet_v2-b64-f32', vision('mobilenet_v2', 64), None, False),
 ('resnet50-b64-f32', vision('resnet50', 64), None, False),
 ('resnet18-b64-f32', vision('resnet18', 64), None, False),
 ('densenet121-b32-f32', vision('densenet121', 32), None, False),
 ('bert-base-b8-s512-bf16', hf('bert-base', 8, 512), torch.bfloat16, True),
]
summary = {'torch': torch.__version__, 'device': torch.cuda.get_device_name(), 'cuda': torch.version.cuda, 'runs': []}
for name, make, amp, tf32 in runs:
    if time.time() > deadline: break
    try:
        torch.manual_seed(0); torch.cuda.empty_cache(); torch.cuda.reset_peak_memory_stats()
        torch.backends.cuda.matmul.allow_tf32 = tf32; torch.backends.cudnn.allow_tf32 = tf32
        m, f = make(); m = m.to(dev).train(); o = torch.optim.SGD(m.parameters(), lr=1e-3, momentum=0.9)
        ev = lambda: torch.cuda.Event(enable_timing=True)
        def step(marks=None):
            o.zero_grad(set_to_none=True)
            a, b, c, d = ev(), ev(), ev(), ev(); a.record()
            with torch.autocast('cuda', dtype=amp, enabled=amp is not None): l = f(m)
            b.record(); l.backward(); c.record(); o.step(); d.record()
            if marks is not None: marks.append((a, b, c, d))
        for _ in range(4): step()
        marks = []
        for _ in range(9): step(marks)
        torch.cuda.synchronize()
        med = lambda v: sorted(v)[len(v) // 2]
        r = {'name': name, 'step_ms': med([a.elapsed_time(d) for a, b, c, d in marks]), 'forward_ms': med([a.elapsed_time(b) for a, b, c, d in marks]),
             'backward_ms': med([b.elapsed_time(c) for a, b, c, d in marks]), 'optimizer_ms': med([c.elapsed_time(d) for a, b, c, d in marks]),
             'peak_allocated': torch.cuda.max_memory_allocated(), 'peak_reserved': torch.cuda.max_memory_reserved(),
             'parameters': sum(p.numel() for p in m.parameters()), 'amp': str(amp), 'tf32': tf32}
        free, total = torch.cuda.mem_get_info(); r['driver_used'] = total - free
        summary['runs'].append(r)
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], record_shapes=True, profile_memory=True, schedule=schedule(wait=0, warmup=1, active=1, repeat=1), on_trace_ready=lambda p: p.export_chrome_trace(f"{out}/{name}.kineto.json")) as p:
            for _ in range(2): step(); p.step()

        et = torch.profiler.ExecutionTraceObserver(); et.register_callback(f'{out}/{name}.et.json'); et.start(); step(); torch.cuda.synchronize(); et.stop(); et.unregister_callback()
        torch.cuda.memory._record_memory_history(max_entries=200000, stacks='python', context=None)
        step(); step(); torch.cuda.synchronize()
        pickle.dump(torch.cuda.memory._snapshot(), open(f'{out}/{name}.snapshot.pickle', 'wb')); torch.cuda.memory._record_memory_history(enabled=None)
        for k in ('kineto.json', 'et.json', 'snapshot.pickle'):
            q = f'{out}/{name}.{k}'
            if os.path.exists(q):
                gzip.open(q + '.gz', 'wb', 6).write(open(q, 'rb').read()); r[k] = os.path.getsize(q + '.gz'); os.remove(q)
        print(r, flush=True)
    except Exception as e:
        summary['runs'].append({'name': name, 'error': repr(e)}); traceback.print_exc()
    finally:
        try: torch.cuda.memory._record_memory_history(enabled=None)
        except Exception: pass
        m = o = f = None
# rates of single ops
def rate(fn, n=20):
    for _ in range(3): fn()
    a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    a.record()
    for _ in range(n): fn()
    b.record(); torch.cuda.synchronize(); return a.elapsed_time(b) / n
ops = []
for dt, tf in (('float32', False), ('float32', True), ('bfloat16', True), ('float16', True)):
    torch.backends.cuda.matmul.allow_tf32 = tf; torch.backends.cudnn.allow_tf32 = tf
    d = getattr(torch, dt)
    for k in (128, 256, 512, 1024, 2048, 4096, 8192):
        if time.time() > deadline + 20: break
        a = torch.randn(k, k, device=dev, dtype=d); b = torch.randn(k, k, device=dev, dtype=d)
        ops.append({'op': 'matmul', 'dtype': dt, 'tf32': tf, 'size': k, 'ms': rate(lambda: a @ b)})
    for c, hw, kk in ((64, 56, 3), (128, 28, 3), (256, 14, 3), (512, 7, 3), (256, 56, 1), (1024, 14, 1)):
        x = torch.randn(32, c, hw, hw, device=dev, dtype=d); w = torch.randn(c, c, kk, kk, device=dev, dtype=d)
        ops.append({'op': 'conv', 'dtype': dt, 'tf32': tf, 'size': [32, c, hw, kk], 'ms': rate(lambda: torch.nn.functional.conv2d(x, w, padding=kk // 2))})
for mb in (1, 4, 16, 64, 256, 1024):
    x = torch.randn(mb * 262144, device=dev); y = torch.empty_like(x)
    ops.append({'op': 'relu', 'mib': mb, 'ms': rate(lambda: torch.relu(x))}); ops.append({'op': 'copy', 'mib': mb, 'ms': rate(lambda: y.copy_(x))})
summary['ops'] = ops
json.dump(summary, open(f'{out}/summary.json', 'w'), indent=1)
