#include "launcher/observe/http_server.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <microhttpd.h>
#include <netdb.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <map>
#include <set>
#include <string_view>
#include <thread>

#include "launcher/observe/listen_address.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

ListenAddress parse_address(const HttpServer::Options& options) {
  try {
    return parse_listen_address(options.address);
  } catch (const Error&) {  // which names a key of a job
    throw Error(ErrorCode::kInvalidInput,
                "{} {}: this is no address with a port; write it as 127.0.0.1:8080, or [::1]:8080",
                options.address_name, options.address);
  }
}

[[noreturn]] void refuse(const HttpServer::Options& options, std::string_view reason) {
  throw Error(
      ErrorCode::kInvalidInput,
      "{} {}: cannot listen there: {}; choose an address of this machine and a free port (port 0 takes any)",
      options.address_name, options.address, reason);
}

/// A socket that listens; the caller closes it.
int listening_socket(const HttpServer::Options& options) {
  const ListenAddress wanted = parse_address(options);
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int problem = getaddrinfo(wanted.host.c_str(), wanted.port.c_str(), &hints, &found);
  if (problem != 0) refuse(options, gai_strerror(problem));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  const int fd = ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int on = 1;
  if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      ::bind(fd, found->ai_addr, found->ai_addrlen) != 0 || ::listen(fd, HttpServer::kMaxConnections) != 0) {
    const std::string reason = std::strerror(errno);
    if (fd >= 0) ::close(fd);
    refuse(options, reason);
  }
  return fd;
}

/// The URL of a socket, and whether only this machine reaches it.
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

/// A stream of one client. It is suspended while there is nothing to send.
struct Stream {
  MHD_Connection* connection = nullptr;
  std::set<Stream*>* all = nullptr;
  std::function<std::string()> next;
  std::string pending;  // not sent yet
  bool suspended = false;
  int fd = -1;
  Clock::time_point moved = Clock::now();  // it last took something, or had nothing to take
};

ssize_t read_stream(void* self, std::uint64_t /*position*/, char* buffer, std::size_t max) {
  auto& stream = *static_cast<Stream*>(self);
  stream.moved = Clock::now();
  try {
    if (stream.pending.empty()) stream.pending = stream.next();
  } catch (const std::exception&) {  // no exception may cross a C frame
    return MHD_CONTENT_READER_END_WITH_ERROR;
  }
  if (stream.pending.empty()) {
    MHD_suspend_connection(stream.connection);
    stream.suspended = true;
    return 0;
  }
  const std::size_t bytes = std::min(max, stream.pending.size());
  std::memcpy(buffer, stream.pending.data(), bytes);
  stream.pending.erase(0, bytes);
  return static_cast<ssize_t>(bytes);
}

void end_stream(void* self) {
  auto* stream = static_cast<Stream*>(self);
  stream->all->erase(stream);
  delete stream;
}

int socket_of(MHD_Connection* connection) {
  return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
}

}  // namespace

struct HttpServer::Server {
  Options options;
  std::string url;
  bool loopback = false;
  int stop = ::eventfd(0, EFD_CLOEXEC);
  MHD_Daemon* daemon = nullptr;
  // Of the server's thread:
  std::map<int, Clock::time_point> connections;  // by socket; without streams
  std::set<Stream*> streams;
  std::thread thread;

  ~Server() {
    if (stop >= 0) ::close(stop);
  }
  static MHD_Result answer(void* self, MHD_Connection* connection, const char* path, const char* method,
                           const char* version, const char* data, std::size_t* data_bytes, void** request);
  static void note_connection(void* self, MHD_Connection* connection, void** context,
                              MHD_ConnectionNotificationCode code);
  MHD_Response* response_of(HttpAnswer answer, MHD_Connection* connection);
  void serve();
  void tick();
};

MHD_Response* HttpServer::Server::response_of(HttpAnswer answer, MHD_Connection* connection) {
  if (!answer.next)
    return MHD_create_response_from_buffer(answer.body.size(), answer.body.data(), MHD_RESPMEM_MUST_COPY);
  constexpr std::size_t kBlockBytes = 16 << 10;
  auto* stream = new Stream{.connection = connection,
                            .all = &streams,
                            .next = std::move(answer.next),
                            .pending = std::move(answer.body),
                            .fd = socket_of(connection)};
  MHD_Response* response =
      MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, kBlockBytes, &read_stream, stream, &end_stream);
  if (response == nullptr) {
    delete stream;
    return nullptr;
  }
  streams.insert(stream);
  connections.erase(stream->fd);
  return response;
}

MHD_Result HttpServer::Server::answer(void* self, MHD_Connection* connection, const char* path,
                                      const char* method, const char* /*version*/, const char* /*data*/,
                                      std::size_t* data_bytes, void** /*request*/) {
  auto& server = *static_cast<Server*>(self);
  const std::string_view verb = method;
  MHD_Response* response = nullptr;
  HttpAnswer given;
  try {
    if (verb != MHD_HTTP_METHOD_GET && verb != MHD_HTTP_METHOD_HEAD) {
      given.status = MHD_HTTP_METHOD_NOT_ALLOWED;
    } else {
      const char* after = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Last-Event-ID");
      if (after == nullptr) after = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "after");
      given = server.options.answer({.path = path, .after = after == nullptr ? "" : after});
      if (verb == MHD_HTTP_METHOD_HEAD) given.next = nullptr;
    }
    response = server.response_of(given, connection);
  } catch (const std::exception&) {  // of memory: no exception may cross a C frame
    return MHD_NO;
  }
  *data_bytes = 0;
  if (response == nullptr) return MHD_NO;
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, given.type.c_str());
  MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
  MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
  MHD_add_response_header(response, "X-Frame-Options", "DENY");
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
  const MHD_Result result = MHD_queue_response(connection, given.status, response);
  MHD_destroy_response(response);
  return result;
}

void HttpServer::Server::note_connection(void* self, MHD_Connection* connection, void** /*context*/,
                                         MHD_ConnectionNotificationCode code) {
  auto& connections = static_cast<Server*>(self)->connections;
  if (code == MHD_CONNECTION_NOTIFY_STARTED) {
    connections[socket_of(connection)] = Clock::now();
  } else {
    connections.erase(socket_of(connection));
  }
}

/// Asks the streams for what is new, and closes what takes too long.
void HttpServer::Server::tick() {
  if (options.tick) options.tick();
  const auto oldest = Clock::now() - std::chrono::seconds(kMaxSeconds);
  for (const auto& [fd, began] : connections) {
    if (began < oldest) ::shutdown(fd, SHUT_RDWR);  // the library sees its end, and closes it
  }
  for (Stream* stream : streams) {
    if (!stream->suspended) {
      if (stream->moved < oldest) ::shutdown(stream->fd, SHUT_RDWR);
      continue;
    }
    stream->pending = stream->next();
    if (stream->pending.empty()) continue;
    stream->suspended = false;
    stream->moved = Clock::now();
    MHD_resume_connection(stream->connection);
  }
}

void HttpServer::Server::serve() {
  pollfd watched[] = {
      {.fd = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd, .events = POLLIN, .revents = 0},
      {.fd = stop, .events = POLLIN, .revents = 0}};
  auto next_tick = Clock::now();
  while (watched[1].revents == 0) {
    unsigned long long wanted_ms = 0;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(next_tick - Clock::now()).count();
    auto timeout_ms = std::clamp<std::int64_t>(left, 0, options.tick_ms);
    if (MHD_get_timeout(daemon, &wanted_ms) == MHD_YES)
      timeout_ms = std::min(timeout_ms, static_cast<std::int64_t>(wanted_ms));
    if (::poll(watched, 2, static_cast<int>(timeout_ms)) < 0 && errno != EINTR) return;
    if (Clock::now() >= next_tick) {
      try {
        tick();
      } catch (const std::exception&) {  // a look that failed is made again
      }
      next_tick = Clock::now() + std::chrono::milliseconds(options.tick_ms);
    }
    MHD_run(daemon);
  }
  // The library refuses to end with connections that are suspended.
  for (Stream* stream : streams) {
    if (stream->suspended) MHD_resume_connection(stream->connection);
    stream->suspended = false;
    stream->next = [] { return std::string(":\n\n"); };
    ::shutdown(stream->fd, SHUT_RDWR);
  }
  MHD_run(daemon);
}

HttpServer::HttpServer(Options options) : server_(std::make_unique<Server>()) {
  server_->options = std::move(options);
  const int socket = listening_socket(server_->options);
  std::tie(server_->url, server_->loopback) = describe_socket(socket);
  server_->daemon =
      MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, nullptr, nullptr, &Server::answer,
                       server_.get(), MHD_OPTION_LISTEN_SOCKET, socket, MHD_OPTION_CONNECTION_LIMIT,
                       kMaxConnections, MHD_OPTION_CONNECTION_MEMORY_LIMIT, std::size_t{64} << 10,
                       MHD_OPTION_NOTIFY_CONNECTION, &Server::note_connection, server_.get(), MHD_OPTION_END);
  if (server_->daemon == nullptr) {
    ::close(socket);
    refuse(server_->options, "the HTTP server does not start");
  }
  // Signals are for the main thread.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  server_->thread = std::thread([server = server_.get()] { server->serve(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

HttpServer::~HttpServer() {
  const std::uint64_t one = 1;
  if (::write(server_->stop, &one, sizeof one) < 0) assert(false);
  server_->thread.join();
  MHD_stop_daemon(server_->daemon);
}

const std::string& HttpServer::url() const {
  return server_->url;
}

bool HttpServer::is_loopback() const {
  return server_->loopback;
}

}  // namespace trireme
