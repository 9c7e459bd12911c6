"""proxies.py K3: nginx and HAProxy at their defaults in front of the server. B3, B5: what a queued stream says comes through while it is
queued, an answer comes through whole, and a client that leaves is missed behind them too."""
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile

from served import Served, chat, post_bytes, read_response, text_of

nginx_config = '''daemon off; pid {folder}/nginx.pid; error_log stderr; worker_processes 1;
events {{ }}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u;
  scgi_temp_path {folder}/s;
  server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://127.0.0.1:{upstream}; }} }}
}}
'''
haproxy_config = '''defaults
  mode http
  timeout connect 5s
  timeout client 50s
  timeout server 50s
frontend front
  bind 127.0.0.1:{port}
  default_backend back
backend back
  server k3 127.0.0.1:{upstream}
'''


def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


def find(program):
    found = shutil.which(program, path=os.environ.get('PATH', '') + ':/usr/sbin:/sbin')
    if not found:
        raise SystemExit(f'{program} is not installed')
    return found


class Proxy:
    def __init__(self, server, folder, command, config):
        self.port = free_port()
        path = os.path.join(folder, 'config')
        with open(path, 'w') as file:
            file.write(config.format(folder=folder, port=self.port, upstream=server.port))
        self.process = subprocess.Popen([part.format(config=path, folder=folder) for part in command], stdin=subprocess.DEVNULL)
        server.until('the proxy to listen', self.listens)

    def listens(self):
        try:
            socket.create_connection(('127.0.0.1', self.port)).close()
            return True
        except OSError:
            return False

    def close(self):
        self.process.terminate()
        self.process.wait(timeout=60)


def stream(server, proxy, path, body, name):
    client = server.connect(port=proxy.port)
    client.sendall(post_bytes(path, {**body, 'stream': True}, f'X-Request-Id: {name}\r\nConnection: close\r\n'))
    return client


def state_of(server, name):
    return next((slot['state'] for slot in server.slots() if slot['id'] == name), None)


def check(server, proxy):
    alone = text_of(server.post('/v1/chat/completions', chat('What is 48+75?', stream=True))[1])
    running = stream(server, proxy, '/v1/completions', server.endless(), 'running')
    server.until('the first to run', lambda: state_of(server, 'running') not in (None, 'queued'))
    queued = stream(server, proxy, '/v1/chat/completions', chat('What is 48+75?'), 'queued')
    # Held back in a proxy's buffer, these few bytes would come with the answer or not at all.
    said = b''
    while len(re.findall(rb'(?m)^: ', said)) < 4:
        part = queued.recv(65536)
        if not part:
            raise SystemExit(f'a queued stream ended: {said[-500:]}')
        said += part
    if state_of(server, 'queued') != 'queued':
        raise SystemExit('the pings of a queued stream came when it was queued no longer')
    # Nobody tells the server but the proxy.
    running.close()
    server.until('the client behind the proxy to be missed', lambda: state_of(server, 'running') is None)

    class Rest:
        def recv(self, size):
            nonlocal said
            data, said = said, b''
            return data or queued.recv(size)
    through = text_of(read_response(Rest())[1])
    if through != alone:
        raise SystemExit(f'through the proxy: {through!r}\ndirectly: {alone!r}')
    queued.close()


with Served(sys.argv[1], '--ping', '0.1', '--parallel', '1') as server:
    proxies = {'nginx': (['nginx', '-p', '{folder}', '-c', '{config}'], nginx_config),
               'haproxy': (['haproxy', '-db', '-f', '{config}'], haproxy_config)}
    for name, (command, config) in proxies.items():
        with tempfile.TemporaryDirectory() as folder:
            proxy = Proxy(server, folder, [find(command[0]), *command[1:]], config)
            try:
                check(server, proxy)
                print(f'{name}: streams come through event by event')
            finally:
                proxy.close()
