#include "server/tls.hpp"

#include <openssl/err.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/ssl/impl/src.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fstream>

namespace k3::server {
namespace {

using boost::system::error_code;
constexpr auto kAsTuple = asio::as_tuple(asio::use_awaitable);

Error refused(const std::filesystem::path& file, std::string what, const error_code& error) {
  return {.code = ErrorCode::invalid_argument, .message = std::move(what) + ": " + error.message(), .file = file.string()};
}

// The names of protocols a client offers, each after its length: of ours there is one.
int choose_protocol(SSL*, const unsigned char** chosen, unsigned char* length, const unsigned char* offered,
                    unsigned offered_length, void*) {
  static constexpr unsigned char kHttp[] = "\x08http/1.1";
  const int found =
      SSL_select_next_proto(const_cast<unsigned char**>(chosen), length, kHttp, sizeof kHttp - 1, offered, offered_length);
  return found == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK;
}

}  // namespace

struct TlsContext::State {
  asio::ssl::context context{asio::ssl::context::tls_server};
};

TlsContext::TlsContext() : state_(std::make_unique<State>()) {}
TlsContext::~TlsContext() = default;

Result<std::shared_ptr<TlsContext>> TlsContext::create(const std::filesystem::path& certificate, const std::filesystem::path& key) {
  for (const auto& file : {certificate, key}) {
    // OpenSSL's own words for this are those of its innermost function.
    if (!std::ifstream(file) || std::filesystem::is_directory(file))
      return Error{.code = ErrorCode::invalid_argument, .message = "cannot read the TLS file", .file = file.string()};
  }
  auto made = std::make_shared<TlsContext>();
  auto& context = made->state_->context;
  error_code error;
  context.set_options(asio::ssl::context::default_workarounds | asio::ssl::context::single_dh_use, error);
  SSL_CTX_set_min_proto_version(context.native_handle(), TLS1_2_VERSION);
  // A buffer of 32 KiB less for each connection that waits.
  SSL_CTX_set_mode(context.native_handle(), SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_alpn_select_cb(context.native_handle(), choose_protocol, nullptr);
  context.use_certificate_chain_file(certificate.string(), error);
  if (error) return refused(certificate, "not a certificate in PEM form", error);
  // Or OpenSSL would ask at the terminal.
  context.set_password_callback([](std::size_t, asio::ssl::context::password_purpose) { return std::string(); }, error);
  context.use_private_key_file(key.string(), asio::ssl::context::pem, error);
  if (error) return refused(key, "not a private key in PEM form without password, or not this certificate's", error);
  if (SSL_CTX_check_private_key(context.native_handle()) != 1) {
    ERR_clear_error();
    return Error{
        .code = ErrorCode::invalid_argument, .message = "this key does not belong to the certificate", .file = key.string()};
  }
  return made;
}

struct TlsStream::State {
  State(Socket& socket, asio::ssl::context& context) : stream(socket, context) {}
  asio::ssl::stream<Socket&> stream;
};

TlsStream::TlsStream(Socket& socket, TlsContext& context) : state_(std::make_unique<State>(socket, context.state_->context)) {}
TlsStream::~TlsStream() = default;

asio::awaitable<error_code> TlsStream::handshake() {
  const auto done = co_await state_->stream.async_handshake(asio::ssl::stream_base::server, kAsTuple);
  co_return std::get<0>(done);
}

asio::awaitable<IoResult> TlsStream::read_some(asio::mutable_buffer space) {
  const auto read = co_await state_->stream.async_read_some(space, kAsTuple);
  co_return read;
}

asio::awaitable<IoResult> TlsStream::write_some(asio::const_buffer bytes) {
  const auto written = co_await state_->stream.async_write_some(bytes, kAsTuple);
  co_return written;
}

asio::awaitable<void> TlsStream::shutdown() {
  const auto done = co_await state_->stream.async_shutdown(kAsTuple);
  static_cast<void>(done);
}

}  // namespace k3::server
