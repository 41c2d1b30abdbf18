// A small HTTP server with streams of server-sent events, for what a person looks at in a browser. It only
// answers GET and HEAD, one thread does all of it, and it waits for no client: [Note: a server beside the
// training].
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace trireme {

struct HttpRequest {
  std::string path;
  std::string after;  // "?after=", or the Last-Event-ID of a stream that was cut
};

struct HttpAnswer {
  unsigned status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
  /// Of a stream of events: what is to be sent now, empty for nothing yet. Called until the client leaves.
  std::function<std::string()> next = nullptr;
};

class HttpServer {
 public:
  static constexpr unsigned kMaxConnections = 32;
  /// Of an answer, and of a stream that its client does not read.
  static constexpr int kMaxSeconds = 20;

  struct Options {
    std::string address;                                   // see listen_address.h
    std::string address_name = "--listen";                 // of messages
    std::function<HttpAnswer(const HttpRequest&)> answer;  // by the server's thread, as the next
    std::function<void()> tick = nullptr;                  // before streams are asked, about every tick_ms
    int tick_ms = 1000;
  };
  /// Listens from now on. Throws Error(kInvalidInput) naming the address where it cannot: a port that is
  /// taken.
  explicit HttpServer(Options options);
  /// Closes all connections.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// "http://127.0.0.1:8080/", with the port that was taken.
  const std::string& url() const;
  /// False: other machines may reach it.
  bool is_loopback() const;

 private:
  struct Server;
  std::unique_ptr<Server> server_;
};

}  // namespace trireme
