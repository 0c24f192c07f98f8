#!/usr/bin/env bash
# Records nginx-combined.log and apache-common.log anew, from an nginx and an Apache httpd on loopback (Debian's
# packages nginx-light and apache2, their modules in /usr/lib/apache2/modules). Everything else lives in a temporary
# folder, which goes at the end.
set -euo pipefail
fixtures=$(cd "$(dirname "$0")" && pwd)
root=$(mktemp -d)
chmod 755 "$root"
trap 'kill $(cat "$root"/*.pid) 2>/dev/null || true; sleep 1; rm -rf "$root"' EXIT

mkdir -p "$root"/site/{docs,img,private,'white space'} "$root/tmp"
for page in index about contact docs/index docs/start docs/guide 'white space/page'; do
    { echo "<!doctype html><title>$page</title>"; seq 1 $((40 * ${#page})); } >"$root/site/$page.html"
done
seq 1 400 | sed 's/.*/.a& { color: red }/' >"$root/site/style.css"
seq 1 900 | sed 's/.*/f(&);/' >"$root/site/app.js"
head -c 20000 /dev/urandom >"$root/site/img/logo.png"
touch -d '2026-01-01 00:00:00 UTC' "$root/site/style.css" # for 304: not modified since
echo 'User-agent: *' >"$root/site/robots.txt"
echo secret >"$root/site/private/notes.txt"
printf 'maria:{PLAIN}pw\n' >"$root/users"

cat >"$root/nginx.conf" <<CONF
pid $root/nginx.pid;
error_log $root/error.log;
events {}
http {
    types { text/html html; text/css css; text/javascript js; image/png png; text/plain txt; }
    access_log $root/nginx.log combined;
    client_body_temp_path $root/tmp/a; proxy_temp_path $root/tmp/b; fastcgi_temp_path $root/tmp/c;
    uwsgi_temp_path $root/tmp/d; scgi_temp_path $root/tmp/e;
    client_max_body_size 1k;
    server {
        listen 127.0.0.1:18080;
        listen [::1]:18080;
        root $root/site;
        location = /old { return 301 /about.html; }
        location = /moved { return 302 /docs/; }
        location /private/ { deny all; }
        location = /members { auth_basic members; auth_basic_user_file $root/users; try_files /about.html =404; }
        location = /broken { return 500; }
        location = /api { proxy_pass http://127.0.0.1:18099; }
        location = /closed { return 503; }
        location = /hangup { return 444; }
    }
}
CONF

cat >"$root/apache.conf" <<CONF
ServerRoot $root
PidFile $root/apache.pid
ServerName localhost
Listen 127.0.0.1:18081
Listen [::1]:18081
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
LoadModule authz_host_module /usr/lib/apache2/modules/mod_authz_host.so
LoadModule dir_module /usr/lib/apache2/modules/mod_dir.so
LoadModule alias_module /usr/lib/apache2/modules/mod_alias.so
LoadModule mime_module /usr/lib/apache2/modules/mod_mime.so
LoadModule reqtimeout_module /usr/lib/apache2/modules/mod_reqtimeout.so
TypesConfig /dev/null
ErrorLog $root/apache-error.log
LogFormat "%h %l %u %t \"%r\" %>s %b" common
CustomLog $root/apache.log common
DocumentRoot $root/site
RequestReadTimeout header=1
LimitRequestBody 1000
User www-data
Group www-data
<Directory $root/site>
    Require all granted
</Directory>
<Directory $root/site/private>
    Require all denied
</Directory>
Redirect 301 /old /about.html
Redirect gone /gone
CONF

nginx -c "$root/nginx.conf" -p "$root"
(cd "$root" && apache2 -f "$root/apache.conf")
sleep 1

get() { curl --silent --max-time 5 "$@" >/dev/null || true; }
raw() { # raw PORT TEXT: sends bytes that curl would not
    exec 3<>"/dev/tcp/127.0.0.1/$1"
    printf "$2" >&3
    timeout 3 cat <&3 >/dev/null || true
    exec 3>&-
}
agents=(
    'Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0'
    'Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0'
    'ExampleBot/1.0 (+https://example.org/bot)' 'curl/8.0' 'a "quoted" \ agent' 'käfer/1'
)
visit() { # visit PORT ROUND: what one visitor asks for
    local site="http://127.0.0.1:$1" agent="${agents[$2 % ${#agents[@]}]}"
    if [ $(($2 % 4)) = 3 ]; then site="http://[::1]:$1"; fi
    get -A "$agent" "$site/"
    get -A "$agent" -e "$site/" "$site/style.css" "$site/app.js" "$site/img/logo.png"
    get -A "$agent" -e "https://example.org/search?q=\"log\"+$2" "$site/docs/?from=search&round=$2"
    get -A "$agent" -e "$site/docs/" "$site/docs/guide.html"
    get -A "$agent" -I "$site/about.html"
    get -A "$agent" -r 0-99 "$site/img/logo.png"
    get -A "$agent" -z 'Thu, 01 Jan 2026 00:00:00 GMT' "$site/style.css"
    get -A "$agent" "$site/missing-$(($2 % 5)).html"
    if [ $(($2 % 2)) = 0 ]; then get -A "$agent" "$site/old" "$site/docs" "$site/robots.txt"; fi
    if [ $(($2 % 3)) = 0 ]; then get -A "$agent" -d 'name=value' "$site/contact.html"; fi
    if [ $(($2 % 5)) = 0 ]; then get -A "$agent" "$site/private/notes.txt" "$site/white%20space/page.html"; fi
}
odd() { # odd PORT: what is found in every log of a server on the open net
    get -A '' "http://127.0.0.1:$1/"
    get -k "https://127.0.0.1:$1/"
    get -X OPTIONS --request-target '*' "http://127.0.0.1:$1/"
    get -x "http://127.0.0.1:$1" http://example.org/about.html
    get -d "$(head -c 3000 /dev/zero | tr '\0' a)" "http://127.0.0.1:$1/contact.html"
    get "http://127.0.0.1:$1/long?$(head -c 9000 /dev/zero | tr '\0' b)"
    get --path-as-is "http://127.0.0.1:$1/../../etc/passwd" "http://127.0.0.1:$1/a%00b" "http://127.0.0.1:$1/a%22b"
    raw "$1" 'GET /\r\n'
    raw "$1" 'GET /about.html HTTP/1.1\r\n\r\n'
    raw "$1" 'GET /docs/"quoted" \\ HTTP/1.0\r\n\r\n'
    raw "$1" 'GET /caf\xc3\xa9/\xff HTTP/1.0\r\n\r\n'
    raw "$1" 'quit\r\n\r\n'
    raw "$1" '\x16\x03\x01\x02\x00\x01\x00\r\n\r\n'
    raw "$1" 'SSH-2.0-OpenSSH_9.2\r\n\r\n'
    raw "$1" '\r\n'
    raw "$1" ''
}
for round in $(seq 1 22); do visit 18080 "$round"; done
odd 18080
get -u maria:pw http://127.0.0.1:18080/members
get -u "maria garc\"ia:pw" http://127.0.0.1:18080/members
get http://127.0.0.1:18080/members http://127.0.0.1:18080/moved http://127.0.0.1:18080/hangup
get http://127.0.0.1:18080/broken http://127.0.0.1:18080/api http://127.0.0.1:18080/closed
get -X DELETE http://127.0.0.1:18080/about.html
for round in $(seq 1 12); do visit 18081 "$round"; done
odd 18081
get http://127.0.0.1:18081/gone
sleep 1

cp "$root/nginx.log" "$fixtures/nginx-combined.log"
cp "$root/apache.log" "$fixtures/apache-common.log"
