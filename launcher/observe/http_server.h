// A small HTTP server with streams of server-sent events: what Prometheus scrapes, what a person looks at.
//
// [Note: a server beside the training] It only answers GET and HEAD. One thread of low priority does all of
// it, on whatever core the training leaves it, and waits for no client. Connections are few, the rest waits
// in the system; each is closed after its answer, and each has little time: [Note: slow clients] in
// connection_limits.h. Streams are few, too; who is one too many is told so. So clients, slow or many, cost
// the training nothing that it would notice.
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
  /// In place of `body`: one that many answers share.
  std::shared_ptr<const std::string> kept = nullptr;
  /// Of a stream of events: what is to be sent now, empty for nothing yet. Called until the client leaves.
  std::function<std::string()> next = nullptr;
};

class HttpServer {
 public:
  struct Options {
    std::string address;                                   // see listen_address.h
    std::string setting;                                   // of messages: "--listen 127.0.0.1:8080"
    std::function<HttpAnswer(const HttpRequest&)> answer;  // by the server's thread, as the next
    std::function<void()> tick = nullptr;                  // before streams are asked, about every tick_ms
    int tick_ms = 1000;
    unsigned max_connections = 32, max_streams = 32;
    int max_seconds = 20;  // of an answer, and of a stream that its client does not read
    int nice = 19;         // of the server's thread; 19: the lowest priority
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
