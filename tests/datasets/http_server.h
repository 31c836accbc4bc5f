// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A small HTTP server on the loopback interface, for tests of downloads. One connection at a time.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace ddpbench::data {

// The bytes that are sent for a path.
struct HttpAnswer {
  std::string bytes;
  bool hold = false;      // then wait for the client to give up, instead of closing
  std::string body = {};  // of which a part is sent to who asks for it; empty: `bytes` always
};

// A whole answer. A `claimed_length` other than the body's is a lie for tests.
HttpAnswer http_answer(const std::string& status, const std::string& body,
                       const std::string& headers = "");
HttpAnswer http_answer_of_length(std::size_t claimed_length, const std::string& body);

class HttpServer {
 public:
  HttpServer();
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // "http://127.0.0.1:PORT/"
  const std::string& url() const { return url_; }
  void serve(const std::string& path, HttpAnswer answer);  // other paths: 404
  std::vector<std::string> requests() const;  // paths and parts ("/a bytes=17-"), in order

 private:
  void run();
  void answer(int connection);

  int listener_ = -1;
  std::string url_;
  mutable std::mutex mutex_;
  std::map<std::string, HttpAnswer> answers_;
  std::vector<std::string> requests_;
  std::thread thread_;
};

}  // namespace ddpbench::data
