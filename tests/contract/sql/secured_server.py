"""A PostgreSQL server like a hosted one: TCP on this machine, TLS with our own certificate, a password.

The PostgreSQL of the wheel has no TLS. A proxy in front of it handles the start of the protocol (SSLRequest)
and the encryption; the client cannot notice the difference.
"""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from holdfast.stores.sql.postgres import EmbeddedServer

USER = "gateway"
SSL_REQUEST = (8).to_bytes(4, "big") + (80877103).to_bytes(4, "big")


class TlsProxy:
    """A proxy that accepts TLS connections on a port and forwards them to another."""

    def __init__(self, certificate: Path, key: Path, to_port: int) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate, key)
        self._to_port = to_port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        """Answer the client's SSLRequest, then forward in both directions; refuse unencrypted connections."""
        with suppress(OSError), client:
            if client.recv(8, socket.MSG_WAITALL) != SSL_REQUEST:
                return  # Unencrypted connections are refused.
            client.sendall(b"S")
            with (
                self._context.wrap_socket(client, server_side=True) as encrypted,
                socket.create_connection(("127.0.0.1", self._to_port)) as server,
            ):
                back = threading.Thread(target=_forward, args=(server, encrypted), daemon=True)
                back.start()
                _forward(encrypted, server)
                back.join()


def _forward(source: socket.socket, target: socket.socket) -> None:
    """Copy bytes from the source to the target until either side closes."""
    with suppress(OSError):
        while content := source.recv(65536):
            target.sendall(content)
    with suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)


@dataclass(frozen=True)
class SecuredServer:
    """A running server behind its TLS proxy."""

    server: EmbeddedServer
    proxy: TlsProxy
    certificate: Path

    def url(self, database: str, *, user: str = USER, mode: str = "verify-full") -> str:
        """Return the URL of a database, with the certificate to trust if `mode` is verify-full."""
        trusted = f"&sslrootcert={quote(str(self.certificate), safe='')}" if mode == "verify-full" else ""
        return f"postgresql://{user}@127.0.0.1:{self.proxy.port}/{database}?sslmode={mode}{trusted}"

    def connect_as_owner(self, database: str = "postgres") -> psycopg.Connection[Any]:
        """Open a superuser connection by the local socket, without TLS."""
        running = self.server.ensure_running()
        return psycopg.connect(
            host=running.socket_folder, port=running.port, user="postgres", dbname=database, autocommit=True
        )

    def stop(self) -> None:
        """Close the proxy and stop the server."""
        self.proxy.close()
        self.server.release()

    def set_password(self, password: str) -> None:
        """Change the password of the user `gateway`."""
        with self.connect_as_owner() as connection:
            # This kind of statement takes no parameters; the tests' passwords are letters.
            connection.execute(f"ALTER ROLE {USER} PASSWORD '{password}'".encode())

    def create_database(self, name: str) -> None:
        """Create a database that the user `gateway` owns."""
        with self.connect_as_owner() as connection:
            connection.execute(f"CREATE DATABASE {name} OWNER {USER} STRATEGY file_copy".encode())


def start_secured_server(folder: Path, password: str) -> SecuredServer:
    """Start a temporary server with its certificate in the folder. Call `stop` at the end."""
    port = _free_port()
    server = EmbeddedServer(None, configuration={"listen_addresses": "127.0.0.1", "port": str(port)})
    server.use()
    certificate, key = _write_certificate(folder)
    secured_server = SecuredServer(server, TlsProxy(certificate, key, port), certificate)
    with secured_server.connect_as_owner() as connection:
        connection.execute(f"CREATE ROLE {USER} LOGIN PASSWORD '{password}'".encode())
    return secured_server


def _free_port() -> int:
    """Return a TCP port that is free now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def _write_certificate(folder: Path) -> tuple[Path, Path]:
    """Write a self-signed certificate for 127.0.0.1 and its key, and return their paths."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    certificate, private = folder / "server.crt", folder / "server.key"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.touch(mode=0o600)
    private.write_bytes(pem)
    return certificate, private
