"""crowd.py K3 [IDLE] [QUEUED] [SECONDS]: thousands of kept connections that say nothing, hundreds of streams that wait for the model. They
cost little memory and next to no time, and another client is answered. Prints what it measured."""
import resource
import sys
import time

from served import Served, chat, post_bytes

k3 = sys.argv[1]
idle_wanted = int(sys.argv[2]) if len(sys.argv) > 2 else 10000
queued_wanted = int(sys.argv[3]) if len(sys.argv) > 3 else 500
seconds = float(sys.argv[4]) if len(sys.argv) > 4 else 10

soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
if hard < idle_wanted + queued_wanted + 100:
    raise SystemExit(f'only {hard} files may be open here (ulimit -n)')

health = b'GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n'
# The slowest kernels on one thread: what waits for the model shall wait for a while.
arguments = ['--max-connections', '20000', '--max-connections-per-address', '20000', '--queue', '1000', '--isa', 'scalar', '--threads', '1', '--parallel', '1']
waiting = chat('The cat sat on the mat. ' * 100, stream=True, max_tokens=1)


def cost(server, what, before, count):
    each = (server.resident() - before) / count
    print(f'{count} {what}: {each / 1024:.1f} KB each')
    if each > 64 * 1024:
        raise SystemExit(f'{what} take too much memory')


def busy_share(server, what, anyway=0):
    before, begun = server.network_cpu(), time.monotonic()
    time.sleep(seconds)
    share = (server.network_cpu() - before) / (time.monotonic() - begun)
    print(f'{what}: {share * 100:.2f} % of a core')
    if share - anyway > 0.02:
        raise SystemExit('waiting clients take too much time')
    return share


def open_idle(server):
    clients = [server.connect() for _ in range(idle_wanted)]
    for client in clients:
        client.sendall(health)
    for client in clients:
        if not client.recv(4096).startswith(b'HTTP/1.1 200'):
            raise SystemExit('an idle client was not welcome')
    return clients


def open_endless(server):
    client = server.connect()
    client.sendall(post_bytes('/v1/completions', server.endless()))
    return client


def open_queued(server):
    clients = []
    for _ in range(queued_wanted):
        client = server.connect()
        client.sendall(post_bytes('/v1/chat/completions', waiting))
        clients.append(client)
    for client in clients:
        if not client.recv(4096).startswith(b'HTTP/1.1 200'):
            raise SystemExit('a stream was not taken')
    return clients


with Served(k3, *arguments) as server:
    # What the model needs for such a prompt is not the waiting clients' doing.
    server.post('/v1/chat/completions', waiting)
    before = server.resident()
    idle = open_idle(server)
    cost(server, 'idle connections', before, idle_wanted)
    busy_share(server, 'network thread with idle connections')
    answer = server.post('/v1/chat/completions', chat('What is the capital of France?'))[1]
    if 'Paris' not in answer:
        raise SystemExit(f'a chat among the crowd: {answer}')
    endless = open_endless(server)
    server.until('the model to write', lambda: any(slot['output_tokens'] > 0 for slot in server.slots()))
    writing = busy_share(server, 'network thread with one long answer')
    before = server.resident()
    queued = open_queued(server)
    cost(server, 'queued streams', before, queued_wanted)
    busy_share(server, 'network thread with queued streams too', writing)
    print(f'still queued: {sum(slot["state"] == "queued" for slot in server.slots())}')
    for client in [endless, *queued]:
        client.close()
    server.until('the queued streams to end', lambda: server.slots() == [])
    if 'Paris' not in server.post('/v1/chat/completions', chat('What is the capital of France?'))[1]:
        raise SystemExit('a chat after the crowd')
    for client in idle:
        client.close()
    server.until('the crowd to be gone', lambda: server.connections() == 1)
