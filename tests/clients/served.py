"""For scripts that import it: `k3 serve` as a child process, and sockets to talk to it."""
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import time


class Served:
    def __init__(self, k3, *arguments, model='bundled'):
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen([k3, 'serve', model, '--port', '0', *arguments], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=self.errors)
        line = self.process.stdout.readline().decode()
        found = re.search(r'http://127\.0\.0\.1:(\d+)', line)
        if not found:
            raise SystemExit(f'the server did not come up: {line}{self.log()}')
        self.port = int(found.group(1))
        self.until('the model to load', lambda: self.get('/health')[0] == 200)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.process.send_signal(signal.SIGTERM if kind is None else signal.SIGKILL)
        code = self.process.wait(timeout=60)
        if kind is None and code != 0:
            raise SystemExit(f'the server ended with {code}: {self.log()}')

    def log(self):
        self.errors.seek(0)
        return self.errors.read().decode(errors='replace')

    def until(self, what, holds, seconds=120):
        end = time.monotonic() + seconds
        while not holds():
            if self.process.poll() is not None:
                raise SystemExit(f'the server has ended: {self.log()}')
            if time.monotonic() > end:
                raise SystemExit(f'waited in vain for {what}')
            time.sleep(0.05)

    def connect(self, source=None, timeout=120, port=None):
        client = socket.socket()
        client.settimeout(timeout)
        if source:
            client.bind((source, 0))
        client.connect(('127.0.0.1', port or self.port))
        return client

    def get(self, path, source=None):
        with self.connect(source) as client:
            client.sendall(f'GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n'.encode())
            return read_response(client)

    def post(self, path, body, source=None):
        with self.connect(source) as client:
            client.sendall(post_bytes(path, body, 'Connection: close\r\n'))
            return read_response(client)

    def endless(self):
        """The body of a text completion that does not end before it is as long as the context."""
        ends = json.loads(self.post('/tokenize', {'content': '<|end_of_msg|><|close|>[EOS]', 'special': True})[1])['tokens']
        return {'prompt': 'Count', 'max_tokens': 1000000, 'logit_bias': {str(end): -100 for end in ends}}

    def slots(self):
        return json.loads(self.get('/slots')[1])

    def metrics(self):
        lines = [line.rsplit(' ', 1) for line in self.get('/metrics')[1].splitlines() if not line.startswith('#')]
        return {name: float(value) for name, value in lines}

    def connections(self):
        return sum(value for name, value in self.metrics().items() if name.startswith('k3_connections{'))

    def open_files(self):
        return len(os.listdir(f'/proc/{self.process.pid}/fd'))

    def resident(self):
        with open(f'/proc/{self.process.pid}/status') as file:
            return int(re.search(r'RssAnon:\s+(\d+)', file.read()).group(1)) * 1024

    def network_cpu(self):
        """Seconds of the processor that the network thread has used."""
        folder = f'/proc/{self.process.pid}/task'
        for task in os.listdir(folder):
            with open(f'{folder}/{task}/stat') as file:
                text = file.read()
            if '(k3-http)' in text:
                fields = text[text.rindex(')') + 2:].split()
                return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')
        raise SystemExit('no thread is called k3-http')


def post_bytes(path, body, headers=''):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return (f'POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{headers}'
            f'Content-Length: {len(data)}\r\n\r\n').encode() + data


def unchunk(data):
    body = b''
    while data:
        size, data = data.split(b'\r\n', 1)
        count = int(size, 16)
        if count == 0:
            return body
        body, data = body + data[:count], data[count + 2:]
    raise ValueError('a chunked body ends too soon')


def read_response(client):
    """Of a connection that ends with it: status and body."""
    data = b''
    while part := client.recv(65536):
        data += part
    head, body = data.split(b'\r\n\r\n', 1)
    if b'\r\ntransfer-encoding: chunked' in head.lower():
        body = unchunk(body)
    return int(head.split(b' ')[1]), body.decode()


def text_of(stream):
    """What a stream of chat events says, thought and answer; it must have come to its end."""
    if not stream.endswith('data: [DONE]\n\n'):
        raise ValueError(f'the stream does not end with [DONE]: {stream[-300:]}')
    parts = []
    for event in stream.split('\n\n'):
        if event.startswith('data: {'):
            for choice in json.loads(event[6:])['choices']:
                parts += [choice['delta'].get(name) or '' for name in ('reasoning_content', 'content')]
    return ''.join(parts)


def chat(content, **fields):
    return {'messages': [{'role': 'user', 'content': content}], 'temperature': 0, **fields}
