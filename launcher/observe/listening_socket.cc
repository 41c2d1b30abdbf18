#include "launcher/observe/listening_socket.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "launcher/observe/listen_address.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

[[noreturn]] void refuse(const std::string& setting, std::string_view reason) {
  throw Error(ErrorCode::kInvalidInput,
              "{}: cannot listen there: {}; choose an address of this machine and a free port (port 0 takes "
              "any)",
              setting, reason);
}

/// The URL of a socket, and true if only this machine can reach it.
std::pair<std::string, bool> describe_socket(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &length);
  char text[INET6_ADDRSTRLEN] = "";
  if (storage.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(storage);
    inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
    return {fmt::format("http://[{}]:{}/", text, ntohs(v6.sin6_port)), IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr)};
  }
  constexpr std::uint32_t kLoopbackNet = 127;
  const auto& v4 = reinterpret_cast<const sockaddr_in&>(storage);
  inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
  return {fmt::format("http://{}:{}/", text, ntohs(v4.sin_port)),
          ntohl(v4.sin_addr.s_addr) >> 24 == kLoopbackNet};
}

}  // namespace

ListeningSocket::ListeningSocket(const std::string& address, const std::string& setting) {
  const ListenAddress wanted = parse_listen_address(address, setting);
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int problem = getaddrinfo(wanted.host.c_str(), wanted.port.c_str(), &hints, &found);
  if (problem != 0) refuse(setting, gai_strerror(problem));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  fd_ = ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  // A restarted process reuses the port of its predecessor, whose last connections are still in TIME_WAIT.
  const int on = 1;
  // Inherited by connections: limits the kernel memory for data that clients do not read.
  const int send_bytes = 256 << 10;
  if (fd_ < 0 || setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      setsockopt(fd_, SOL_SOCKET, SO_SNDBUF, &send_bytes, sizeof send_bytes) != 0 ||
      ::bind(fd_, found->ai_addr, found->ai_addrlen) != 0 || ::listen(fd_, SOMAXCONN) != 0) {
    const std::string reason = std::strerror(errno);
    if (fd_ >= 0) ::close(fd_);
    refuse(setting, reason);
  }
  // A connection is accepted once its client has sent data, so silent ones do not use up slots.
  const int silent_s = 5;
  // Optional: the server also works without it.
  setsockopt(fd_, IPPROTO_TCP, TCP_DEFER_ACCEPT, &silent_s, sizeof silent_s);
  host_ = wanted.host;
  std::tie(url_, loopback_) = describe_socket(fd_);
}

ListeningSocket::~ListeningSocket() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace trireme
