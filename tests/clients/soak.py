"""soak.py K3 [SECONDS] [CLIENTS]: clients that read to the end, leave at any byte, reset, half-close, stall and ask again and again.
Afterwards the gauges are at zero, memory and descriptors are where they were, and every answer that was read was the right one."""
import random
import struct
import socket
import sys
import threading
import time

from served import Served, chat, post_bytes, read_response, text_of

k3 = sys.argv[1]
seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 120
clients = int(sys.argv[3]) if len(sys.argv) > 3 else 64
sanitized = any(name in k3 for name in ('asan', 'tsan'))  # there memory that was given back stays counted for a while

questions = ['What is 48+75?', 'What is the capital of France?', 'Count 1 to 5.']
bodies = [chat(question, stream=True, max_tokens=40) for question in questions]
faults = []
counts = {}
lock = threading.Lock()


def reset(client):
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))


def ask(server, which, stream=True):
    client = server.connect()
    client.sendall(post_bytes('/v1/chat/completions', {**bodies[which], 'stream': stream}, 'Connection: close\r\n'))
    return client


def read_some(client, most):
    got = 0
    while got < most:
        part = client.recv(min(4096, most - got))
        if not part:
            return
        got += len(part)


def whole(server, rng, right):
    which = rng.randrange(len(bodies))
    with ask(server, which) as client:
        status, body = read_response(client)
    if status == 200 and text_of(body) != right[which]:
        faults.append(f'{questions[which]}: {text_of(body)!r} instead of {right[which]!r}')
    elif status not in (200, 429):
        faults.append(f'{status}: {body[:300]}')


def leave(server, rng, right):
    with ask(server, rng.randrange(len(bodies)), rng.random() < 0.7) as client:
        client.settimeout(rng.random())
        try:
            read_some(client, rng.randrange(1, 4000))
        except TimeoutError:
            pass
        if rng.random() < 0.5:
            reset(client)


def half_close(server, rng, right):
    with ask(server, rng.randrange(len(bodies))) as client:
        client.shutdown(socket.SHUT_WR)
        read_some(client, 1 << 30)


def half_a_request(server, rng, right):
    with server.connect() as client:
        data = post_bytes('/v1/chat/completions', bodies[0])
        client.sendall(data[:rng.randrange(1, len(data))])
        if rng.random() < 0.5:
            reset(client)


def stall(server, rng, right):
    with ask(server, rng.randrange(len(bodies))) as client:
        time.sleep(rng.random())
        read_some(client, 2000)


def storm(server, rng, right):
    which = rng.randrange(len(bodies))
    several = [ask(server, which) for _ in range(3)]
    for client in several:
        client.close()


actions = [whole, whole, leave, leave, half_close, half_a_request, stall, storm]


def run(server, seed, right, end):
    rng = random.Random(seed)
    while time.monotonic() < end and not faults:
        action = rng.choice(actions)
        try:
            action(server, rng, right)
        except (ConnectionError, BrokenPipeError):
            if action is whole:
                faults.append('a connection that nobody closed was reset')
        except Exception as error:  # a thread's end would go unnoticed
            faults.append(f'{action.__name__}: {error!r}')
        with lock:
            counts[action.__name__] = counts.get(action.__name__, 0) + 1


def settled(server):
    # All that may be left is the connection that asks.
    now = server.metrics()
    states = [value for name, value in now.items() if name.startswith(('k3_requests_in_state', 'k3_connections{', 'k3_jobs{'))]
    return sum(states) == 1 and server.slots() == []


def load(server, right, duration):
    end = time.monotonic() + duration
    threads = [threading.Thread(target=run, args=(server, seed, right, end)) for seed in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise SystemExit('\n'.join(faults[:5]))
    server.until('the gauges to return to zero', lambda: settled(server))
    return server.open_files(), server.resident()


with Served(k3, '--queue', '24', '--max-connections-per-address', '512', '--log-format', 'json') as server:
    right = [text_of(server.post('/v1/chat/completions', body)[1]) for body in bodies]
    # What a first crowd takes, it may keep: buffers that have grown to their size.
    files_before, memory_before = load(server, right, seconds / 3)
    files, memory = load(server, right, seconds * 2 / 3)
    grown = (memory - memory_before) / 1e6
    print(f'{sum(counts.values())} steps of {clients} clients: {counts}')
    print(f'open files {files_before} to {files}, own memory grew by {grown:.1f} MB')
    if files > files_before + 1:
        raise SystemExit('descriptors are left open')
    if not sanitized and grown > 16:
        raise SystemExit('memory grows')
