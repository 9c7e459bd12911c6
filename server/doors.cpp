#include "server/doors.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <cstring>

namespace k3::server {
namespace {

using boost::system::error_code;
using Local = asio::local::stream_protocol;

Error cannot_listen(const std::string& where, const std::string& why) {
  return fail(ErrorCode::io, "cannot listen on " + where + ": " + why);
}

// Whether a process is there that takes connections at `path`.
bool somebody_listens(asio::io_context& io, const std::filesystem::path& path) {
  Local::socket probe(io);
  error_code error;
  probe.connect(Local::endpoint(path.string()), error);
  return !error;
}

// Makes room for a socket file; what is wrong, if that cannot be.
std::string clear_place(asio::io_context& io, const std::filesystem::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return errno == ENOENT ? std::string() : std::strerror(errno);
  if (!S_ISSOCK(status.st_mode)) return "there is something that is no socket";
  if (somebody_listens(io, path)) return "another process listens there";
  return ::unlink(path.c_str()) == 0 ? std::string() : std::strerror(errno);
}

}  // namespace

Result<Door> Door::tcp(asio::io_context& io, const asio::ip::address& address, std::uint16_t port) {
  const asio::ip::tcp::endpoint endpoint(address, port);
  asio::ip::tcp::acceptor acceptor(io);
  error_code error;
  acceptor.open(endpoint.protocol(), error);
  // Without it a restart would have to wait for the old connections' TIME_WAIT. It does not let two servers share a port.
  if (!error) acceptor.set_option(asio::ip::tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) return cannot_listen(fmt::format("{} port {}", address.to_string(), port), error.message());
  return Door(Acceptor(std::move(acceptor)));
}

Result<Door> Door::local(asio::io_context& io, const std::filesystem::path& path) {
  if (path.string().size() >= sizeof(sockaddr_un::sun_path)) {
    return Error{.code = ErrorCode::invalid_argument,
                 .message = "the path of a Unix socket is too long",
                 .file = path.string(),
                 .expected = fmt::format("at most {} bytes", sizeof(sockaddr_un::sun_path) - 1)};
  }
  if (const std::string wrong = clear_place(io, path); !wrong.empty()) return cannot_listen(path.string(), wrong);
  Local::acceptor acceptor(io);
  error_code error;
  acceptor.open(Local(), error);
  // Before the file exists: it never is, not even for a moment, open to others.
  if (!error && ::fchmod(acceptor.native_handle(), S_IRUSR | S_IWUSR) != 0) error.assign(errno, boost::system::system_category());
  if (!error) acceptor.bind(Local::endpoint(path.string()), error);
  struct stat status {};
  if (!error && ::lstat(path.c_str(), &status) != 0) error.assign(errno, boost::system::system_category());
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) return cannot_listen(path.string(), error.message());
  Door door{Acceptor(std::move(acceptor))};
  door.file_ = std::make_unique<File>(File{path, status.st_dev, status.st_ino});
  return door;
}

Door::~Door() {
  if (!file_) return;
  struct stat status {};
  if (::lstat(file_->path.c_str(), &status) != 0 || status.st_dev != file_->device || status.st_ino != file_->inode) return;
  ::unlink(file_->path.c_str());
}

std::uint16_t Door::port() const {
  error_code error;
  const auto raw = acceptor_.local_endpoint(error);
  asio::ip::tcp::endpoint endpoint;
  if (error || raw.size() > endpoint.capacity()) return 0;
  std::memcpy(endpoint.data(), raw.data(), raw.size());
  return endpoint.port();
}

void Door::close() {
  error_code ignored;
  acceptor_.close(ignored);
}

}  // namespace k3::server
