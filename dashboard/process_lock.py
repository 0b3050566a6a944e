"""The lock that a page holds while it starts or ends a process.

Pages do both in threads, and a start redirects stderr for all of them.
"""

import threading

process_lock = threading.Lock()
