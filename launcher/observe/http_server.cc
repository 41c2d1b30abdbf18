#include "launcher/observe/http_server.h"

#include <microhttpd.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <set>
#include <string_view>
#include <thread>

#include "launcher/observe/connection_limits.h"
#include "launcher/observe/listening_socket.h"
#include "launcher/observe/request_origin.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

/// A client's stream. It is suspended while there is nothing to send.
struct Stream {
  MHD_Connection* connection = nullptr;
  std::set<Stream*>* all = nullptr;
  std::function<std::string()> next;
  std::string pending;  // not sent yet
  bool suspended = false;
  int fd = -1;
  Clock::time_point moved = Clock::now();  // when the client last read, or had nothing to read
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
  ListeningSocket socket;
  int stop = ::eventfd(0, EFD_CLOEXEC);
  MHD_Daemon* daemon = nullptr;
  // Used on the server's thread only:
  ConnectionLimits connections;  // without streams
  std::set<Stream*> streams;
  std::thread thread;

  explicit Server(Options given)
      : options(std::move(given)),
        socket(options.address, options.setting),
        connections(options.max_connections, std::chrono::seconds(options.max_seconds)) {}
  Server(const Server&) = delete;
  ~Server() {
    if (stop >= 0) ::close(stop);
  }
  static MHD_Result answer(void* self, MHD_Connection* connection, const char* path, const char* method,
                           const char* version, const char* data, std::size_t* data_bytes, void** request);
  static void note_connection(void* self, MHD_Connection* connection, void** context,
                              MHD_ConnectionNotificationCode code);
  HttpAnswer ask(MHD_Connection* connection, const char* path, std::string_view method);
  MHD_Response* response_of(const HttpAnswer& answer, MHD_Connection* connection);
  MHD_Response* stream_of(const HttpAnswer& answer, MHD_Connection* connection);
  void serve();
  int poll_ms(Clock::time_point next_tick, bool was_crowded) const;
  void close_slow_ones(Clock::time_point now);
  void tick();
  void end_streams();
};

MHD_Response* HttpServer::Server::response_of(const HttpAnswer& answer, MHD_Connection* connection) {
  if (answer.next) return stream_of(answer, connection);
  if (!answer.kept)
    return MHD_create_response_from_buffer(answer.body.size(), const_cast<char*>(answer.body.data()),
                                           MHD_RESPMEM_MUST_COPY);
  using Kept = std::shared_ptr<const std::string>;
  auto owner = std::make_unique<Kept>(answer.kept);
  MHD_Response* response = MHD_create_response_from_buffer_with_free_callback_cls(
      answer.kept->size(), const_cast<char*>(answer.kept->data()),
      [](void* kept) { delete static_cast<Kept*>(kept); }, owner.get());
  if (response != nullptr) owner.release();
  return response;
}

MHD_Response* HttpServer::Server::stream_of(const HttpAnswer& answer, MHD_Connection* connection) {
  constexpr std::size_t kBlockBytes = 16 << 10;
  auto stream = std::make_unique<Stream>(Stream{.connection = connection,
                                                .all = &streams,
                                                .next = answer.next,
                                                .pending = answer.body,
                                                .fd = socket_of(connection)});
  MHD_Response* response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, kBlockBytes, &read_stream,
                                                             stream.get(), &end_stream);
  if (response == nullptr) return nullptr;
  connections.ended(stream->fd);
  streams.insert(stream.release());
  return response;
}

RequestOrigin origin_of(MHD_Connection* connection) {
  RequestOrigin origin;
  const auto add = [](void* self, MHD_ValueKind, const char* name, const char* value) {
    auto& found = *static_cast<RequestOrigin*>(self);
    if (strcasecmp(name, MHD_HTTP_HEADER_HOST) == 0) found.hosts.emplace_back(value == nullptr ? "" : value);
    if (strcasecmp(name, "Origin") == 0) found.origins.emplace_back(value == nullptr ? "" : value);
    return MHD_YES;
  };
  MHD_get_connection_values(connection, MHD_HEADER_KIND, add, &origin);
  return origin;
}

/// The answer to a request. "/healthz" is the same for all servers: the process runs and serves.
HttpAnswer HttpServer::Server::ask(MHD_Connection* connection, const char* path, std::string_view method) {
  connections.asked(socket_of(connection), Clock::now());
  const bool is_head = method == MHD_HTTP_METHOD_HEAD;
  if (method != MHD_HTTP_METHOD_GET && !is_head) return {.status = MHD_HTTP_METHOD_NOT_ALLOWED};
  const std::optional<RequestTarget> target = parse_target(path);
  if (!target) return {.status = MHD_HTTP_BAD_REQUEST, .body = "The target is no path.\n"};
  RequestOrigin origin = origin_of(connection);
  origin.authority = target->authority;
  const unsigned refusal = refusal_of(origin, socket.host(), socket.is_loopback());
  if (refusal != 0) return {.status = refusal, .body = "This server has another name or origin.\n"};
  if (target->path == "/healthz") return {.body = "ok\n"};
  const char* after = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Last-Event-ID");
  if (after == nullptr) after = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "after");
  HttpAnswer given = options.answer({.path = target->path, .after = after == nullptr ? "" : after});
  if (is_head) given.next = nullptr;
  if (given.next && streams.size() >= options.max_streams)
    return {.status = MHD_HTTP_SERVICE_UNAVAILABLE, .body = "As many follow already as may.\n"};
  return given;
}

MHD_Result HttpServer::Server::answer(void* self, MHD_Connection* connection, const char* path,
                                      const char* method, const char* /*version*/, const char* /*data*/,
                                      std::size_t* data_bytes, void** /*request*/) {
  auto& server = *static_cast<Server*>(self);
  MHD_Response* response = nullptr;
  HttpAnswer given;
  try {
    given = server.ask(connection, path, method);
    response = server.response_of(given, connection);
  } catch (const std::exception&) {  // out of memory; no exception may cross a C frame
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
    connections.began(socket_of(connection), Clock::now());
  } else {
    connections.ended(socket_of(connection));
  }
}

// libmicrohttpd notices that the socket was shut down, and closes it.
void HttpServer::Server::close_slow_ones(Clock::time_point now) {
  for (const int fd : connections.overdue(now)) ::shutdown(fd, SHUT_RDWR);
}

/// Polls the streams for new text, and closes streams whose clients do not read.
void HttpServer::Server::tick() {
  if (options.tick) options.tick();
  const auto oldest = Clock::now() - std::chrono::seconds(options.max_seconds);
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

/// Short if connections are, or were before the last MHD_run(), at the limit: libmicrohttpd accepts again
/// only in a call after the one that closed some.
int HttpServer::Server::poll_ms(Clock::time_point next_tick, bool was_crowded) const {
  constexpr std::int64_t kCrowdedMs = 10;
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(next_tick - Clock::now()).count();
  auto timeout = std::clamp<std::int64_t>(left, 0, options.tick_ms);
  if (was_crowded || connections.is_crowded()) timeout = std::min(timeout, kCrowdedMs);
  unsigned long long wanted_ms = 0;
  if (MHD_get_timeout(daemon, &wanted_ms) == MHD_YES)
    timeout = std::min(timeout, static_cast<std::int64_t>(wanted_ms));
  return static_cast<int>(timeout);
}

// libmicrohttpd cannot stop while connections are suspended.
void HttpServer::Server::end_streams() {
  for (Stream* stream : streams) {
    if (stream->suspended) MHD_resume_connection(stream->connection);
    stream->suspended = false;
    stream->next = [] { return std::string(":\n\n"); };
    ::shutdown(stream->fd, SHUT_RDWR);
  }
  MHD_run(daemon);
}

void HttpServer::Server::serve() {
  setpriority(PRIO_PROCESS, 0, options.nice);  // affects only this thread, on Linux
  pollfd watched[] = {
      {.fd = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd, .events = POLLIN, .revents = 0},
      {.fd = stop, .events = POLLIN, .revents = 0}};
  auto next_tick = Clock::now();
  bool was_crowded = false;
  while (watched[1].revents == 0) {
    if (::poll(watched, 2, poll_ms(next_tick, was_crowded)) < 0 && errno != EINTR) return;
    if (Clock::now() >= next_tick) {
      try {
        tick();
      } catch (const std::exception&) {  // the next poll tries again
      }
      next_tick = Clock::now() + std::chrono::milliseconds(options.tick_ms);
    }
    const auto before = Clock::now();  // connections opened before this time have been seen by libmicrohttpd
    was_crowded = connections.is_crowded();
    MHD_run(daemon);
    close_slow_ones(before);
  }
  end_streams();
}

HttpServer::HttpServer(Options options) : server_(std::make_unique<Server>(std::move(options))) {
  const Options& given = server_->options;
  server_->daemon = MHD_start_daemon(
      MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, nullptr, nullptr, &Server::answer, server_.get(),
      MHD_OPTION_LISTEN_SOCKET, server_->socket.fd(), MHD_OPTION_CONNECTION_LIMIT,
      given.max_connections + given.max_streams, MHD_OPTION_CONNECTION_MEMORY_LIMIT, std::size_t{32} << 10,
      MHD_OPTION_NOTIFY_CONNECTION, &Server::note_connection, server_.get(), MHD_OPTION_END);
  if (server_->daemon == nullptr || server_->stop < 0)
    throw Error(ErrorCode::kInvalidInput, "{}: the HTTP server does not start", given.setting);
  server_->socket.release();  // the daemon closes it
  // Signals are delivered to the main thread.
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
  return server_->socket.url();
}

bool HttpServer::is_loopback() const {
  return server_->socket.is_loopback();
}

}  // namespace trireme
