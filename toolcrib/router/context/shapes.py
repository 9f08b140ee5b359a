"""Spans known by their shape: addresses on the web, money, versions, paths, code, errors."""

from __future__ import annotations

import errno
import re
import signal
from collections.abc import Iterator

from toolcrib.records.context import Entity

__all__ = ["shapes"]

_DIGITS = "0123456789"

_SCHEMES = (
    r"https?|ftps?|wss?|ssh|git|s3|gs|postgres(?:ql)?|mysql|redis|mongodb(?:\+srv)?|amqps?|file"
    r"|jdbc:[a-z]{2,12}|ldaps?|smb|sftp|kafka|grpc|tcp|udp|docker|oci"
)
_TOP_LEVELS = "com|org|edu|gov|info|dev|app|eu|uk|de|fr|nl|ch|jp|cn|example"
"""Those that are no ending of a file's name as well, as `.py` and `.sh` are."""
_IN_URL = r"[^\s<>\"`{}|\\^]"
_URL = re.compile(
    rf"(?<![\w+.-])(?:(?:{_SCHEMES})://|www\.(?=\w)){_IN_URL}{{1,2000}}"
    rf"|(?<![\w@./-])(?:[a-z0-9](?:[a-z0-9-]{{0,61}}[a-z0-9])?\.){{1,4}}(?:{_TOP_LEVELS})"
    rf"(?::\d{{2,5}})?(?:/{_IN_URL}{{0,500}})?(?![\w@(-]|\.\w)",
    re.IGNORECASE,
)

_AMOUNT = r"\d{1,3}(?:[\d.,']{0,18}\d)?"
_MONEY = re.compile(
    rf"(?<![\w.])(?:(?:[$€£¥₹]|(?:us|ca|au)\$|(?:usd|eur|gbp|chf|jpy)(?= ?\d)) ?{_AMOUNT}"
    r"(?: ?(?:k|m|bn|million|billion|thousand)\b|(?!\w))"
    rf"|{_AMOUNT} ?(?:k |m |million |billion |thousand )?(?:[€£¥₹](?!\w)"
    r"|(?:usd|eur|gbp|chf|jpy|inr|dollars?|euros?|pounds?|francs?|cents|bucks)\b))",
    re.IGNORECASE,
)

_NUMBERS = r"\d{1,5}(?:\.\d{1,6}){0,4}"
_SUFFIX = r"(?i:[-.+]?(?:alpha|beta|rc|a|b|dev|post|snapshot|preview|lts)[-.]?\d{0,4})?"
_RELEASED = (
    "python|py|node(?:js)?|java|jdk|go|ruby|php|perl|scala|kotlin|swift|rails|django|spring|react"
    "|angular|vue|jquery|bootstrap|postgres(?:ql)?|mysql|redis|kafka|kubernetes|k8s|terraform|gradle"
    "|maven|typescript|ubuntu|debian|centos|windows|macos|ios|android|xcode|chrome|firefox|safari|ie"
    r"|\.net|c#|c\+\+|tls|visual studio|excel|es"
)
_VERSION = re.compile(
    r"(?<!\w)(?:"
    rf"(?<![.-])[vV]{_NUMBERS}{_SUFFIX}(?!\w|\.\d)"
    rf"|(?i:version|ver\.?|versions|release) (?P<named>[vV]?{_NUMBERS}{_SUFFIX})(?![\w:]|\.\d)"
    rf"|(?<!\.)(?i:{_RELEASED})[ /](?P<product>[vV]?{_NUMBERS}{_SUFFIX}(?:\.x)?)(?![\w:%$€]|\.\d)"
    r"|(?<!\.)(?!Table|Section|Figure|Chapter|Part|Step|Page)[A-Z][\w+#]{1,20} "
    r"(?P<titled>\d{1,3}\.\d{1,3}(?:\.x)?)(?![\w:%$€]|\.\d| (?:million|billion|percent))"
    rf"|(?<![./$€£-])\d{{1,4}}\.\d{{1,4}}\.\d{{1,6}}(?:\.\d{{1,4}})?{_SUFFIX}(?:[-+][\w.]{{1,24}})?"
    r"(?![\w/]|\.\d))"
)
"""With a `v`, behind the word or a name, or of three parts."""

_EXTENSIONS = (
    "py|pyi|ipynb|js|jsx|mjs|cjs|ts|tsx|java|kt|kts|scala|go|rs|rb|php|pl|c|h|cc|cpp|cxx|hpp|cs|swift"
    "|m|mm|r|sql|sh|bash|zsh|ps1|bat|cmd|html?|css|scss|sass|less|vue|svelte|xml|xsd|xsl|json|jsonl"
    "|ya?ml|toml|ini|cfg|conf|config|env|properties|gradle|lock|md|mdx|rst|txt|log|csv|tsv|xlsx?|docx?"
    "|pptx?|pdf|odt|png|jpe?g|gif|svg|webp|ico|mp3|mp4|wav|mov|zip|tar|gz|tgz|bz2|xz|7z|rar|jar|war|dll"
    "|exe|so|dylib|apk|ipa|whl|deb|rpm|iso|bin|dat|db|sqlite3?|parquet|avro|proto|graphql|tf|tfvars|hcl"
    "|pem|key|crt|cer|p12|pub|plist|aspx?|jsp|ejs|hbs|twig|erb|tpl|map|patch|diff|bak|tmp|out|pid|sock"
)
_NO_FILE = (
    r"(?!(?i:node|vue|next|react|nuxt|three|d3|express|angular|backbone|ember|chart|p5)\.js\b"
    r"|console\.log\b)"
)
_PART = r"[\w.@+$*{}~:-]{1,80}"
_PATH = re.compile(
    r"(?<![\w/.:@-])(?:"
    rf"(?<!<)(?:~|\.{{1,2}})?/(?=[\w.{{$@~]{{2}}){_PART}(?:/{_PART}){{0,20}}/?(?<![.:])"
    rf"|(?<!\$){_NO_FILE}\w[\w+@-]{{0,60}}(?:[./][\w@+-]{{1,60}}){{0,12}}"
    rf"\.(?:{_EXTENSIONS})(?![\w(/@-]|\.\w)"
    r"|[A-Za-z]:\\(?:[\w.@+$ ~()-]{1,60}\\){0,20}[\w.@+$~-]{1,60}"
    r"|(?:Dockerfile|Makefile|Jenkinsfile|Procfile|Gemfile|CODEOWNERS)(?![\w.])"
    r"|\.(?:env|gitignore|dockerignore|npmrc|bashrc|zshrc|editorconfig|htaccess)(?![\w/]))"
)
"""With a slash before it, or with the ending of a file; `Node.js` is none."""

_BRANDS = frozenset(
    {
        *("GitHub", "GitLab", "JavaScript", "TypeScript", "CoffeeScript", "PostgreSQL", "MySQL"),
        *("MongoDB", "DynamoDB", "MariaDB", "SQLite", "NoSQL", "RabbitMQ", "GraphQL", "OpenAPI"),
        *("OpenAI", "ChatGPT", "LangChain", "LangGraph", "LlamaIndex", "FastAPI", "SQLAlchemy"),
        *("NumPy", "PyTorch", "TensorFlow", "PyCharm", "WebStorm", "JetBrains", "VSCode"),
        *("CloudFront", "CloudWatch", "CircleCI", "TeamCity", "BitBucket", "StackOverflow"),
        *("LinkedIn", "YouTube", "WhatsApp", "PayPal", "HubSpot", "SalesForce", "WordPress"),
        *("PowerPoint", "OneDrive", "SharePoint", "OneNote", "DropBox", "PagerDuty", "DataDog"),
        *("OpsGenie", "SendGrid", "MailChimp", "DevOps", "DevSecOps", "FinOps", "iPhone", "iPad"),
        *("MacBook", "macOS", "iOS", "eBay", "iCloud", "iTunes", "OAuth", "OAuth2", "WebSocket"),
        *("WebSockets", "WebRTC", "WiFi", "BigQuery", "ClickHouse", "NodeJS", "ReactJS", "VueJS"),
        *("AngularJS", "jQuery", "LaTeX", "OpenShift", "VirtualBox", "VMware", "OpenTelemetry"),
    }
)
"""Names with a hump that are of a product, and not of something in code."""

_WORD = r"[A-Za-z_]\w{0,60}"
_IDENTIFIER = re.compile(
    r"(?<!\w)(?:"
    r"`(?P<quoted>[^`\s]{1,80})`"
    rf"|(?<![.$@/-])[$@]?{_WORD}(?:(?:\.|::|->){_WORD}){{0,6}}\(\)"
    rf"|(?<![.$/-]){_WORD}(?:(?:::|->){_WORD}){{1,6}}"
    rf"|(?<![./$-]){_WORD}(?:\.{_WORD}){{2,6}}(?![\w(])"
    r"|(?<![./-])(?:"
    r"[$@]?_{0,2}[A-Za-z][A-Za-z0-9]{0,40}(?:_{1,2}[A-Za-z0-9]{1,40}){1,10}_{0,2}(?!\w)"
    r"|[a-z][a-z0-9]{0,40}(?:[A-Z]{1,5}[a-z0-9]{0,40}){1,8}(?!\w)"
    r"|[A-Z]{1,5}[a-z0-9]{1,40}(?:[A-Z]{1,5}[a-z0-9]{1,40}){1,8}[A-Z]{0,4}(?!\w)"
    rf"|\${_WORD}"
    r"|(?!(?:UTF|SHA|ISO|RFC|COVID|GPT|AES|RSA|PEP|IPV)-)[A-Z][A-Z0-9]{1,9}-\d{1,6}(?![\w-])))"
)
"""In backticks, called, joined by `_`, humps or dots; and keys of tickets, `OPS-318`."""

_ERRNO = "|".join(sorted(errno.errorcode.values(), key=len, reverse=True))
_SIGNALS = "|".join(sorted((one.name for one in signal.Signals), key=len, reverse=True))
_STATUS = r"[1-5](?:\d{2}|xx)"
_ERROR = re.compile(
    r"(?<!\w)(?:"
    r"(?<!\.)(?:[A-Za-z_]\w{0,40}\.){0,6}[A-Z]\w{0,60}"
    r"(?:Error|Exception|Warning|Fault|Interrupt|Failure)(?!\w)"
    rf"|(?<!-)(?:{_ERRNO}|{_SIGNALS}|OOMKilled|CrashLoopBackOff|ImagePullBackOff)(?![\w-])"
    r"|(?<!-)(?:ERR_[A-Z_]{3,40}|ORA-\d{5}|TS\d{4}|CVE-\d{4}-\d{4,7})(?!\w)"
    rf"|(?i:https?(?:/\d(?:\.\d)?)? (?:status |error |code ){{0,2}}{_STATUS}\b)"
    rf"|(?i:error:? {_STATUS}(?![\w.%-]))"
    r"|(?i:(?:error|status|exit|return|response) (?:code|status)s?:? (?:\dxx|-?\d{1,3})(?![\w.%-]))"
    r"|(?i:an?|the|with|returns?|returned|gives?|got|getting) (?P<status>[45](?:\d{2}|xx)(?=s?\b))"
    r"(?=s?\s*(?:$|[,.;:?!)]|(?:on|from|when|for|error|response|status|after|in|and|to|since|if)\b))"
    r"|(?i:segmentation fault|segfault|null ?pointer|out of memory|core dump(?:ed)?"
    r"|connection (?:refused|reset|timed out)|permission denied|no such file or directory)\b)"
)
"""Names of exceptions, errno and signals, HTTP and exit codes, and the classic sentences."""

_PATTERNS = (
    ("url", _URL, "./"),
    ("money", _MONEY, _DIGITS),
    ("version", _VERSION, _DIGITS),
    ("path", _PATH, "./\\f"),
    ("error", _ERROR, ""),
    ("identifier", _IDENTIFIER, ""),
)
"""Type, pattern, and the signs of which the text must hold one for the pattern to be tried."""


def shapes(text: str) -> Iterator[Entity]:
    """Every such span of a text; spans of several types may lie over one another."""
    for kind, pattern, signs in _PATTERNS:
        if signs and not any(sign in text for sign in signs):
            continue
        for found in pattern.finditer(text):
            group: str | int = found.lastgroup or 0
            span = found[group]
            if kind in {"url", "path"}:
                span = _without_the_sentences(span)
            if span not in _BRANDS:
                yield Entity(kind, span, found.start(group), found.start(group) + len(span))


def _without_the_sentences(span: str) -> str:
    """The span without punctuation and a closing bracket that belong to what is around it."""
    span = span.rstrip(".,;:!?'*")
    while span.endswith(")") and span.count("(") < span.count(")"):
        span = span[:-1].rstrip(".,;:!?'*")
    return span
