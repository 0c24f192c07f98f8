// 48 tests run at a time where nobody says anything else.
//
// All at once may block all threads that Dispatch makes, 255, in handlers that wait for their tests, which need one to go on. The
// runner takes the number from the environment alone, which only C can set before that begins. So this has nothing to call.
