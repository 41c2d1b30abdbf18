#include "launcher/observe/metrics_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <microhttpd.h>
#include <netdb.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <map>
#include <string_view>
#include <thread>
#include <utility>

#include "launcher/observe/listen_address.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

[[noreturn]] void refuse(const std::string& address, std::string_view reason) {
  throw Error(
      ErrorCode::kInvalidInput,
      "log.listen = \"{}\": cannot listen there: {}; choose an address of this machine and a free port "
      "(port 0 takes any)",
      address, reason);
}

FileDescriptor listening_socket(const std::string& address) {
  const ListenAddress wanted = parse_listen_address(address);
  const addrinfo hints{.ai_flags = AI_PASSIVE | AI_NUMERICSERV,
                       .ai_family = AF_UNSPEC,
                       .ai_socktype = SOCK_STREAM,
                       .ai_protocol = 0,
                       .ai_addrlen = 0,
                       .ai_addr = nullptr,
                       .ai_canonname = nullptr,
                       .ai_next = nullptr};
  addrinfo* found = nullptr;
  const int problem = getaddrinfo(wanted.host.c_str(), wanted.port.c_str(), &hints, &found);
  if (problem != 0) refuse(address, gai_strerror(problem));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  FileDescriptor fd(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // A run that was started again takes the port of its predecessor, whose last connections still linger.
  const int on = 1;
  if (fd.get() < 0 || setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      ::bind(fd.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      ::listen(fd.get(), MetricsServer::kMaxConnections) != 0)
    refuse(address, std::strerror(errno));
  return fd;
}

/// Address and port of a socket, as a URL has them, and whether only this machine reaches it.
std::pair<std::string, bool> describe_socket(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &length);
  char text[INET6_ADDRSTRLEN] = "";
  if (storage.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(storage);
    inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
    return {fmt::format("[{}]:{}", text, ntohs(v6.sin6_port)), IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr)};
  }
  constexpr std::uint32_t kLoopbackNet = 127;
  const auto& v4 = reinterpret_cast<const sockaddr_in&>(storage);
  inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
  return {fmt::format("{}:{}", text, ntohs(v4.sin_port)), ntohl(v4.sin_addr.s_addr) >> 24 == kLoopbackNet};
}

}  // namespace

struct MetricsServer::Server {
  std::function<std::string()> text;
  std::string url;
  bool loopback = false;
  FileDescriptor stop{::eventfd(0, EFD_CLOEXEC)};
  MHD_Daemon* daemon = nullptr;
  std::map<int, Clock::time_point> connections;  // by socket; of the server's thread
  std::thread thread;

  static MHD_Result answer(void* self, MHD_Connection* connection, const char* path, const char* method,
                           const char* version, const char* data, std::size_t* data_bytes, void** request);
  static void note_connection(void* self, MHD_Connection* connection, void** context,
                              MHD_ConnectionNotificationCode code);
  void serve();
  void close_slow_ones();
};

MHD_Result MetricsServer::Server::answer(void* self, MHD_Connection* connection, const char* path,
                                         const char* method, const char* /*version*/, const char* /*data*/,
                                         std::size_t* data_bytes, void** /*request*/) {
  unsigned status = MHD_HTTP_OK;
  std::string body;
  try {
    if (std::string_view(method) != MHD_HTTP_METHOD_GET && std::string_view(method) != MHD_HTTP_METHOD_HEAD) {
      status = MHD_HTTP_METHOD_NOT_ALLOWED;
    } else if (std::string_view(path) != "/metrics") {
      status = MHD_HTTP_NOT_FOUND;
      body = "The metrics of this run are at /metrics\n";
    } else {
      body = static_cast<Server*>(self)->text();
    }
  } catch (const std::exception&) {  // of memory: no exception may cross a C frame
    return MHD_NO;
  }
  *data_bytes = 0;
  MHD_Response* response = MHD_create_response_from_buffer(body.size(), body.data(), MHD_RESPMEM_MUST_COPY);
  if (response == nullptr) return MHD_NO;
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8");
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
  const MHD_Result result = MHD_queue_response(connection, status, response);
  MHD_destroy_response(response);
  return result;
}

void MetricsServer::Server::note_connection(void* self, MHD_Connection* connection, void** /*context*/,
                                            MHD_ConnectionNotificationCode code) {
  auto& connections = static_cast<Server*>(self)->connections;
  const int fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
  if (code == MHD_CONNECTION_NOTIFY_STARTED) {
    connections[fd] = Clock::now();
  } else {
    connections.erase(fd);
  }
}

// The library's own timeout is of silence: a client that sends a byte now and then would stay.
void MetricsServer::Server::close_slow_ones() {
  const auto oldest = Clock::now() - std::chrono::seconds(kMaxSeconds);
  for (const auto& [fd, began] : connections) {
    if (began < oldest) ::shutdown(fd, SHUT_RDWR);  // the library sees its end, and closes it
  }
}

void MetricsServer::Server::serve() {
  constexpr int kLowestPriority = 19, kLookAgainMs = 1000;
  setpriority(PRIO_PROCESS, 0, kLowestPriority);  // of this thread alone, on Linux
  pollfd watched[] = {
      {.fd = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd, .events = POLLIN, .revents = 0},
      {.fd = stop.get(), .events = POLLIN, .revents = 0}};
  while (watched[1].revents == 0) {
    unsigned long long wanted_ms = 0;
    // Also with no connection left: the library listens again only when it runs after the last one's end.
    int timeout_ms = kLookAgainMs;
    if (MHD_get_timeout(daemon, &wanted_ms) == MHD_YES)
      timeout_ms = static_cast<int>(std::min<unsigned long long>(wanted_ms, kLookAgainMs));
    if (::poll(watched, 2, timeout_ms) < 0 && errno != EINTR) return;
    MHD_run(daemon);
    close_slow_ones();
  }
}

MetricsServer::MetricsServer(const std::string& address, std::function<std::string()> text)
    : server_(std::make_unique<Server>()) {
  FileDescriptor socket = listening_socket(address);
  server_->text = std::move(text);
  std::tie(server_->url, server_->loopback) = describe_socket(socket.get());
  server_->url = "http://" + server_->url + "/metrics";
  server_->daemon = MHD_start_daemon(
      MHD_USE_EPOLL, 0, nullptr, nullptr, &Server::answer, server_.get(), MHD_OPTION_LISTEN_SOCKET,
      socket.get(), MHD_OPTION_CONNECTION_LIMIT, kMaxConnections, MHD_OPTION_CONNECTION_TIMEOUT,
      static_cast<unsigned>(kMaxSeconds), MHD_OPTION_CONNECTION_MEMORY_LIMIT, std::size_t{16} << 10,
      MHD_OPTION_NOTIFY_CONNECTION, &Server::note_connection, server_.get(), MHD_OPTION_END);
  if (server_->daemon == nullptr || server_->stop.get() < 0)
    refuse(address, "the HTTP server does not start");
  socket.release();  // the daemon closes it
  // Signals are for the rank's main thread.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  server_->thread = std::thread([server = server_.get()] { server->serve(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

MetricsServer::~MetricsServer() {
  const std::uint64_t one = 1;
  if (::write(server_->stop.get(), &one, sizeof one) < 0) assert(false);
  server_->thread.join();
  MHD_stop_daemon(server_->daemon);
}

const std::string& MetricsServer::url() const {
  return server_->url;
}

bool MetricsServer::is_loopback() const {
  return server_->loopback;
}

}  // namespace trireme
