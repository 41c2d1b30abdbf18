// A small HTTP server with server-sent events, for Prometheus and for the live page.
//
// [Note: a server beside the training] The server only answers GET and HEAD. One thread of low priority does
// all its work, on any core that the training leaves free, and never blocks on a client. The number of
// connections is limited; further ones wait in the system's queue. Each connection is closed after its answer
// and has little time: [Note: slow clients] in connection_limits.h. Streams are limited too, and an excess
// one is refused. So neither slow nor many clients slow the training measurably.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace trireme {

struct HttpRequest {
  std::string path;
  std::string after;  // "?after=", or the Last-Event-ID of an interrupted stream
};

struct HttpAnswer {
  unsigned status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
  /// Replaces `body`: text shared between answers.
  std::shared_ptr<const std::string> kept = nullptr;
  /// For a stream of events: returns the text to send now, or an empty string. Called until the client
  /// disconnects.
  std::function<std::string()> next = nullptr;
};

class HttpServer {
 public:
  struct Options {
    std::string address;                                   // see listen_address.h
    std::string setting;                                   // for messages: "--listen 127.0.0.1:8080"
    std::function<HttpAnswer(const HttpRequest&)> answer;  // called on the server's thread, like `tick`
    std::function<void()> tick = nullptr;  // called before streams are polled, about every tick_ms
    int tick_ms = 1000;
    unsigned max_connections = 32, max_streams = 32;
    int max_seconds = 20;  // for an answer, and for a stream that its client does not read
    int nice = 19;         // of the server's thread; 19: lowest priority
  };
  /// Starts to listen. Throws Error(kInvalidInput) naming the address if that fails, for example if the port
  /// is in use.
  explicit HttpServer(Options options);
  /// Closes all connections.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// "http://127.0.0.1:8080/", with the actual port.
  const std::string& url() const;
  /// False if other machines can reach it.
  bool is_loopback() const;

 private:
  struct Server;
  std::unique_ptr<Server> server_;
};

}  // namespace trireme
