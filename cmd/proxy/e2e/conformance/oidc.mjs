// A protected MCP server and oidc-provider as its authorization server, on two ports of 127.0.0.1: resource indicators,
// registration, device flow, rotation of refresh tokens, revocation, and tokens that live for 3 seconds. It prints the URL of the MCP
// endpoint. Arguments: the folder of installed packages, and the public key (JWK) of the client that has one.
import http from 'node:http';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [modules, key] = process.argv.slice(2);
const { Provider } = await import(pathToFileURL(join(modules, 'oidc-provider/lib/index.js')));
const listen = (server) => new Promise((done) => server.listen(0, '127.0.0.1', () => done(`http://127.0.0.1:${server.address().port}`)));

const mcp = http.createServer({ keepAliveTimeout: 0 }, (req, res) => handle(req, res));
const as = http.createServer({ keepAliveTimeout: 0 }, (req, res) => provider.callback()(req, res));
const origin = await listen(mcp);
const issuer = await listen(as);
const resource = `${origin}/mcp`;

const provider = new Provider(issuer, {
  clients: [{
    client_id: 'service', client_secret: 'a-secret-of-the-service-0123456789', grant_types: ['client_credentials'],
    redirect_uris: [], response_types: [], token_endpoint_auth_method: 'client_secret_basic',
  }, {
    client_id: 'service-with-a-key', jwks: { keys: [JSON.parse(key)] }, grant_types: ['client_credentials'],
    redirect_uris: [], response_types: [], token_endpoint_auth_method: 'private_key_jwt',
  }],
  features: {
    registration: { enabled: true },
    revocation: { enabled: true },
    clientCredentials: { enabled: true },
    deviceFlow: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: (ctx, asked) => {
        if (asked !== resource) throw new Error('unknown resource');
        return { scope: 'read write', audience: asked, accessTokenTTL: 3, accessTokenFormat: 'opaque' };
      },
      useGrantedResource: () => true,
    },
  },
  scopes: ['openid', 'offline_access', 'read', 'write'],
  rotateRefreshToken: true,
  ttl: { AccessToken: 3, ClientCredentials: 3, RefreshToken: 3600, Grant: 3600, Session: 3600, Interaction: 600 },
  pkce: { required: () => true },
  cookies: { keys: ['for tests only'] },
});
provider.on('server_error', (ctx, err) => console.error(err));

function refuse(res, status, parameters) {
  res.writeHead(status, { 'WWW-Authenticate': `Bearer ${parameters}resource_metadata="${origin}/.well-known/oauth-protected-resource/mcp"` });
  res.end();
}

async function handle(req, res) {
  const json = (status, value) => {
    res.writeHead(status, { 'Content-Type': 'application/json' });
    res.end(JSON.stringify(value));
  };
  if (req.url === '/.well-known/oauth-protected-resource/mcp') {
    return json(200, { resource, authorization_servers: [issuer], scopes_supported: ['read'] });
  }
  if (req.url !== '/mcp') return json(404, {});
  const [, token] = /^Bearer (.+)$/.exec(req.headers.authorization ?? '') ?? [];
  const found = token && ((await provider.AccessToken.find(token)) ?? (await provider.ClientCredentials.find(token)));
  if (!found || found.isExpired || found.aud !== resource) return refuse(res, 401, token ? 'error="invalid_token", ' : '');
  if (req.method !== 'POST') return json(405, {});
  let body = '';
  for await (const part of req) body += part;
  const { id, method, params } = JSON.parse(body);
  const result = {
    initialize: { protocolVersion: '2025-06-18', capabilities: { tools: {} }, serverInfo: { name: 'protected', version: '1' } },
    'tools/list': { tools: ['whoami', 'write'].map((name) => ({ name, inputSchema: { type: 'object' } })) },
    'tools/call': { content: [{ type: 'text', text: `${found.clientId} ${found.scope ?? ''}` }] },
  }[method];
  if (id === undefined) {
    res.writeHead(202);
    return res.end();
  }
  if (method === 'tools/call' && params.name === 'write' && !found.scope?.split(' ').includes('write')) {
    return refuse(res, 403, 'error="insufficient_scope", scope="write", ');
  }
  json(200, result ? { jsonrpc: '2.0', id, result } : { jsonrpc: '2.0', id, error: { code: -32601, message: 'Method not found' } });
}

console.log(resource);
